//! Which socket a number means.

use super::Socket;
use crate::error::errno;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock};

/// By number. A program that closes a number without rclose() leaves its socket here until the number
/// means another one.
static SOCKETS: RwLock<Vec<Option<Arc<Socket>>>> = RwLock::new(Vec::new());

/// Makes a socket known by its number, which is returned.
pub fn add(socket: Arc<Socket>) -> RawFd {
    let number = socket.number();
    let index = usize::try_from(number).expect("descriptors are not negative");
    let before = {
        let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
        if sockets.len() <= index {
            sockets.resize(index + 1, None);
        }
        sockets[index].replace(socket)
    };
    // Its end may wait, so the table is free by now.
    drop(before);
    number
}

/// The socket of a number, if it is one of ours.
pub fn find(number: RawFd) -> Option<Arc<Socket>> {
    let index = usize::try_from(number).ok()?;
    let sockets = SOCKETS.read().unwrap_or_else(PoisonError::into_inner);
    sockets.get(index)?.clone()
}

/// The socket of a number.
///
/// # Errors
/// `EBADF` for any other.
pub fn get(number: RawFd) -> io::Result<Arc<Socket>> {
    find(number).ok_or_else(|| errno(libc::EBADF))
}

/// Ends a socket (close(2)).
///
/// # Errors
/// `EBADF` for a number that is none.
pub fn close(number: RawFd) -> io::Result<()> {
    let index = usize::try_from(number).map_err(|_| errno(libc::EBADF))?;
    let socket = {
        let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
        sockets.get_mut(index).and_then(Option::take)
    };
    socket.ok_or_else(|| errno(libc::EBADF))?.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Family;

    #[test]
    fn numbers_mean_sockets_until_they_are_closed() {
        let socket = Socket::new(Family::V4, false).expect("a descriptor");
        let number = add(Arc::clone(&socket));
        assert!(Arc::ptr_eq(&find(number).expect("it was added"), &socket));
        close(number).expect("it is there");
        assert_eq!(get(number).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(close(number).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(close(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(find(-1).is_none());
    }
}
