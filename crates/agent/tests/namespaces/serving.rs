//! What a member does as a communication manager does it, for the tests in `services`.

use core::net::Ipv6Addr;

use converb_agent::{At, Membership, NotServed, Service};
use converb_cm::mad::MAD_SIZE;
use converb_cm::message::{Message, Request, ServiceId};
use converb_cm::packet::{self, GENERAL_SERVICES, PACKET_BYTES};
use converb_driver::Port;
use converb_engine::{Address, AddressVector, PacketSink};
use converb_link::{Settings, UdpPort};
use converb_wire::Psn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The port space of TCP, without a port.
const TCP: u64 = 0x0106_0000;

/// What came, in words.
#[derive(Default)]
pub struct Serving {
    news: Vec<String>,
    asked: u32,
}

impl Serving {
    /// `serve ADDRESS PORT`, `give-back ADDRESS PORT`, `ask ADDRESS PORT`, or `news`.
    pub fn perform(&mut self, membership: &Membership, verb: &str, argument: &str) -> String {
        if verb == "news" {
            return core::mem::take(&mut self.news).join(",");
        }
        let (address, port) = argument.split_once(' ').expect("an address and a port");
        let (ip, port): (Ipv6Addr, u64) =
            (address.parse().expect("an address"), port.parse().expect("a port"));
        let at = match ip {
            Ipv6Addr::UNSPECIFIED => At::All { v4: true, v6: true },
            ip => At::One { ip, scope: 0 },
        };
        let id = ServiceId(TCP | port);
        let service = Service { id, at, is_listening: true, is_shared: false };
        match verb {
            "serve" => match self.serve(membership, service) {
                Ok(service) => format!("serves {}", service.id.0 & 0xffff),
                Err(error) => format!("error {error:?}"),
            },
            "give-back" => {
                membership.serve_no_more(service);
                "given back".into()
            }
            _ => self.ask(membership, ip, id),
        }
    }

    /// What has come for us.
    pub fn look(&mut self, membership: &Membership) {
        for datagram in membership.take_management() {
            let (_, message) = Message::parse(&datagram.mad).expect("the agent has looked at it");
            self.news.push(match message {
                Message::Request(request) => format!("asked-{}", request.service_id.0 & 0xffff),
                Message::Reject(reject) => format!("rejected-{}", reject.reason.0),
                other => format!("{other:?}"),
            });
        }
    }

    /// One thread waits for the answer while this one looks after the membership.
    fn serve(&mut self, membership: &Membership, service: Service) -> Result<Service, NotServed> {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| membership.serve(service));
            while !waiting.is_finished() {
                let watch = membership.watch_fd().expect("no fork child");
                let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                let _ = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&soon));
                membership.handle_event();
                self.look(membership);
            }
            waiting.join().expect("it does not panic")
        })
    }

    /// Sends a REQ.
    fn ask(&mut self, membership: &Membership, ip: Ipv6Addr, service_id: ServiceId) -> String {
        self.asked += 1;
        let slot = membership.slot_numbers()[0];
        let local_communication_id =
            u32::from(slot) << converb_cm::manager::IDENTIFIER_BITS | self.asked;
        let request = Request { local_communication_id, service_id, ..Request::default() };
        let mut mad = [0; MAD_SIZE];
        Message::Request(request).emit(self.asked.into(), &mut mad);
        let port = UdpPort::new(Vec::new(), Settings::default()).expect("a port");
        let mut batch = port.new_outgoing();
        let address = Address::Udp { ip, scope: 0 };
        let path = AddressVector {
            local: address,
            remote: address,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            service_level: 0,
        };
        let place = batch.begin(&path, GENERAL_SERVICES, PACKET_BYTES).expect("it is empty");
        packet::emit(&mad, Psn::new(self.asked), place);
        batch.finish();
        port.send(&mut batch);
        "asked".into()
    }
}
