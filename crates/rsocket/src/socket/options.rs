//! Options of sockets (setsockopt(2), getsockopt(2)).

use super::Socket;
use crate::error::{errno, of};
use crate::settings::Settings;
use crate::stream::{Phase, Stream};
use converb::cm::Setting;
use std::io;
use std::time::Duration;

/// The level of the options that only rsockets have.
pub const SOL_RDMA: i32 = 0x10000;
const RDMA_SQSIZE: i32 = 0;
const RDMA_RQSIZE: i32 = 1;
const RDMA_INLINE: i32 = 2;
const RDMA_IOMAPSIZE: i32 = 3;

/// Whose options: a level, and an option's number there.
pub type OptionLevel = (i32, i32);

/// What a program has chosen. Sockets that a listener accepts begin with what it has.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    pub(super) settings: Settings,
    /// How long close() waits, if that was said.
    pub(super) linger: Option<Duration>,
    /// What is remembered and changes nothing.
    remembered: Vec<(OptionLevel, i32)>,
}

/// What streams over RDMA do anyway, or do not know: it is remembered, so that programs find what
/// they have chosen.
const REMEMBERED: &[OptionLevel] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
];

impl Choices {
    pub(super) fn usual() -> Self {
        Self { settings: Settings::usual(), linger: None, remembered: Vec::new() }
    }

    fn remember(&mut self, option: OptionLevel, value: i32) {
        match self.remembered.iter_mut().find(|(known, _)| *known == option) {
            Some((_, known)) => *known = value,
            None => self.remembered.push((option, value)),
        }
    }

    fn remembered(&self, option: OptionLevel) -> Option<i32> {
        self.remembered.iter().find(|(known, _)| *known == option).map(|&(_, value)| value)
    }
}

/// Two hours before the first probe, 75 seconds between them, nine of them: what Linux has.
fn usual(option: OptionLevel) -> i32 {
    match option {
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => 7200,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => 75,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => 9,
        _ => 0,
    }
}

impl Socket {
    /// Changes an option; `value` is what the program passes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for one that there is not, `EINVAL` for a value that is too short or comes too
    /// late: sizes are those of the stream once it is there.
    pub fn set_option(&self, option: OptionLevel, value: &[u8]) -> io::Result<()> {
        let number = number(value)?;
        match option {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                self.choices().remember(option, (number != 0).into());
                // Too late for its port, which is no error with sockets.
                let _ = self.identifier.set(Setting::ReuseAddress(number != 0));
                Ok(())
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                self.identifier.set(Setting::OnlyOwnFamily(number != 0)).map_err(of)?;
                self.choices().remember(option, (number != 0).into());
                Ok(())
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                self.identifier.set(Setting::TypeOfService(number as u8)).map_err(of)?;
                self.choices().remember(option, number);
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = value.get(4..8).ok_or_else(|| errno(libc::EINVAL))?;
                let seconds = self::number(seconds)?.max(0) as u64;
                self.choices().linger = (number != 0).then(|| Duration::from_secs(seconds));
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
                // What is there already stays as it is; the program may not get what it asks for.
                let _ = self.resize(option, number);
                Ok(())
            }
            (SOL_RDMA, _) => self.resize(option, number),
            option if REMEMBERED.contains(&option) => {
                self.choices().remember(option, number);
                Ok(())
            }
            _ => Err(errno(libc::ENOPROTOOPT)),
        }
    }

    /// Changes the sizes of a stream to come.
    fn resize(&self, option: OptionLevel, value: i32) -> io::Result<()> {
        if self.stream.get().is_some() {
            return Err(errno(libc::EINVAL));
        }
        let value = u32::try_from(value).map_err(|_| errno(libc::EINVAL))?;
        let settings = &mut self.choices().settings;
        match option {
            // Twice as much, as Linux has it for its sockets.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => settings.set_send_bytes(2 * u64::from(value)),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                settings.set_receive_bytes(2 * u64::from(value));
            }
            (SOL_RDMA, RDMA_SQSIZE) => settings.set_send_requests(value),
            (SOL_RDMA, RDMA_RQSIZE) => settings.set_receive_requests(value),
            (SOL_RDMA, RDMA_INLINE) => settings.set_inline_bytes(value.into()),
            (SOL_RDMA, RDMA_IOMAPSIZE) => settings.set_mappings(value),
            _ => return Err(errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    /// An option's value, as the program gets it.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for one that there is not.
    pub fn option(&self, option: OptionLevel) -> io::Result<Vec<u8>> {
        let settings = self.settings();
        let number = match option {
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.stream.get().map_or(0, |s| s.take_error()),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => match self.family {
                super::Family::V4 => libc::AF_INET,
                super::Family::V6 => libc::AF_INET6,
            },
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => self.is_listening().into(),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => settings.send_bytes as i32,
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => settings.receive_bytes as i32,
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let linger = self.choices().linger;
                let is_on = i32::from(linger.is_some());
                let seconds = linger.map_or(0, |linger| linger.as_secs() as i32);
                return Ok([is_on.to_ne_bytes(), seconds.to_ne_bytes()].concat());
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => self.segment(),
            (SOL_RDMA, RDMA_SQSIZE) => settings.send_requests.into(),
            (SOL_RDMA, RDMA_RQSIZE) => settings.receive_requests.into(),
            (SOL_RDMA, RDMA_INLINE) => settings.inline_bytes as i32,
            (SOL_RDMA, RDMA_IOMAPSIZE) => settings.mappings as i32,
            option => {
                let known = REMEMBERED.contains(&option)
                    || matches!(
                        option,
                        (libc::SOL_SOCKET, libc::SO_REUSEADDR)
                            | (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)
                            | (libc::IPPROTO_IP, libc::IP_TOS)
                    );
                if !known {
                    return Err(errno(libc::ENOPROTOOPT));
                }
                self.choices().remembered(option).unwrap_or_else(|| usual(option))
            }
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    /// How much fits into a packet.
    fn segment(&self) -> i32 {
        let device = self.identifier.device();
        device.map_or(0, |device| device.port().active_mtu.bytes() as i32)
    }

    /// How far its stream has come.
    pub fn phase(&self) -> Option<Phase> {
        self.stream.get().map(|stream| Stream::phase(stream))
    }
}

fn number(value: &[u8]) -> io::Result<i32> {
    let bytes = value.first_chunk().ok_or_else(|| errno(libc::EINVAL))?;
    Ok(i32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Family;

    fn set(socket: &Socket, option: OptionLevel, value: i32) -> io::Result<()> {
        socket.set_option(option, &value.to_ne_bytes())
    }

    fn get(socket: &Socket, option: OptionLevel) -> i32 {
        number(&socket.option(option).expect("there is such an option")).expect("a number")
    }

    #[test]
    fn programs_find_what_they_have_chosen() {
        let socket = Socket::new(Family::V6, false).expect("a descriptor");
        for (option, value, found) in [
            ((libc::SOL_SOCKET, libc::SO_SNDBUF), 100_000, 200_000),
            ((libc::SOL_SOCKET, libc::SO_RCVBUF), 1, 8_192),
            ((libc::SOL_SOCKET, libc::SO_REUSEADDR), 7, 1),
            ((libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1, 1),
            ((libc::IPPROTO_TCP, libc::TCP_NODELAY), 1, 1),
            ((libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1, 1),
            ((SOL_RDMA, RDMA_SQSIZE), 100, 100),
            ((SOL_RDMA, RDMA_RQSIZE), 3, 16),
            ((SOL_RDMA, RDMA_INLINE), 5_000, 1024),
            ((SOL_RDMA, RDMA_IOMAPSIZE), 200, 128),
        ] {
            set(&socket, option, value).expect("it can be chosen");
            assert_eq!(get(&socket, option), found, "{option:?}");
        }
        let linger = [1i32.to_ne_bytes(), 5i32.to_ne_bytes()].concat();
        let option = (libc::SOL_SOCKET, libc::SO_LINGER);
        socket.set_option(option, &linger).expect("it can be chosen");
        assert_eq!(socket.option(option).expect("there is one"), linger);
        assert_eq!(get(&socket, (libc::SOL_SOCKET, libc::SO_ERROR)), 0);
        assert_eq!(get(&socket, (libc::SOL_SOCKET, libc::SO_TYPE)), libc::SOCK_STREAM);
    }

    #[test]
    fn unknown_options_and_short_values_are_refused() {
        let socket = Socket::new(Family::V4, false).expect("a descriptor");
        let code = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(code(set(&socket, (libc::SOL_SOCKET, 9999), 1)), Some(libc::ENOPROTOOPT));
        assert_eq!(code(set(&socket, (SOL_RDMA, 99), 1)), Some(libc::ENOPROTOOPT));
        assert_eq!(code(set(&socket, (SOL_RDMA, RDMA_SQSIZE), -1)), Some(libc::EINVAL));
        assert_eq!(
            code(socket.set_option((libc::SOL_SOCKET, libc::SO_LINGER), &[0; 4])),
            Some(libc::EINVAL)
        );
        assert_eq!(
            code(socket.set_option((libc::SOL_SOCKET, libc::SO_SNDBUF), &[0; 3])),
            Some(libc::EINVAL)
        );
    }
}
