//! Time, the network, and who is there: what happens is taken from a queue, in order.

use super::model::Model;
use super::plan::{MILLISECOND, Plan, SECOND};
use super::process::{Process, Who};
use super::text;
use crate::addresses::{Family, number_of};
use crate::dice::Dice;
use crate::network::{Fate, Frame, Network};
use crate::trace::Trace;
use converb_cm::mad::MAD_SIZE;
use converb_cm::message::Message;
use converb_engine::{Address, AddressVector, Time};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A management datagram.
pub type Mad = [u8; MAD_SIZE];

/// A datagram that has come to a host.
#[derive(Debug)]
pub struct Arrival {
    /// From which host.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// What.
    pub mad: Box<Mad>,
}

/// Something that happens at some time.
#[derive(Debug)]
pub enum Happening {
    /// A datagram comes to a host.
    Arrives(Arrival),
    /// The agent takes it from where it waits, unless that one, by its number, has died.
    Routes(u32, Arrival),
    /// A manager's deadline.
    Expires(Who),
    /// A program reads its news.
    Reads(Who),
    /// A program does something of its own accord.
    Acts(Who),
    /// A program decides about one end of a connection.
    Decides(usize),
    /// A program answers a question.
    Answers(Who, u32),
    /// A wait should be over.
    Limit(usize),
    /// The process in a slot of a host dies, or the agent, and its successor comes so much later.
    Dies(usize, Option<u16>, u64),
    /// A successor comes.
    Begins(usize, Option<u16>),
    /// The network becomes fair.
    TurnsFair,
    /// All programs let go.
    LetGo,
}

/// A host.
#[derive(Debug, Default)]
pub struct Host {
    /// Whether its agent lives.
    pub is_routing: bool,
    /// How many agents it had before.
    pub agents: u32,
    /// How many processes it had.
    pub lives: u32,
    /// By slot.
    pub processes: BTreeMap<u16, Process>,
    /// What dead processes have left to say, to be said by an agent.
    pub last_words: Vec<(AddressVector, Mad)>,
}

/// The state of a run.
#[derive(Debug)]
pub struct World {
    pub(super) plan: Plan,
    pub(super) dice: Dice,
    pub(super) hosts: Vec<Host>,
    pub(super) model: Model,
    network: Network,
    now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    serial: u64,
    trace: Trace,
}

/// After the programs have let go nothing may take longer.
const AFTERMATH: u64 = 120 * SECOND;
/// A run of more steps than this goes round in circles.
const STEPS_MAX: u64 = 2_000_000;

impl World {
    /// The world of a seed, before anything has happened.
    pub fn new(seed: u64, trace: Trace) -> Self {
        let plan = Plan::draw(seed);
        let mut dice = Dice::new(seed ^ 0x0077_6f72_6c64);
        trace.add_if(0, || format!("seed {seed}: {plan:?}"));
        let network = Network::new(plan.weather, dice.fork());
        let hosts = (0..plan.hosts).map(|_| Host::default()).collect();
        let mut world = Self {
            plan,
            dice,
            hosts,
            model: Model::default(),
            network,
            now: 0,
            queue: BTreeMap::new(),
            serial: 0,
            trace,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let slots: Vec<Option<u16>> =
            core::iter::once(None).chain((0..self.plan.slots).map(Some)).collect();
        for host in 0..self.plan.hosts {
            for &slot in &slots {
                self.after(MILLISECOND, Happening::Begins(host, slot));
            }
        }
        for death in core::mem::take(&mut self.plan.deaths) {
            self.after(death.at, Happening::Dies(death.host, death.slot, death.rest));
        }
        self.after(self.plan.fair_from, Happening::TurnsFair);
        self.after(self.plan.let_go_at, Happening::LetGo);
    }

    /// Plays all of it.
    ///
    /// # Errors
    /// Which promise was broken.
    pub fn run(&mut self) -> Result<(), String> {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            self.now = at;
            if at > self.plan.let_go_at + AFTERMATH || self.serial > STEPS_MAX {
                return Err(format!("it does not end: {happening:?}"));
            }
            self.handle(happening)?;
            for (number, limit) in self.model.take_limits() {
                self.at(limit, Happening::Limit(number));
            }
        }
        self.check_end()
    }

    /// How many conversations and questions the model has seen.
    pub fn checked(&self) -> u64 {
        self.model.checked()
    }

    /// Virtual nanoseconds.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The same for managers.
    pub const fn time(&self) -> Time {
        Time::from_nanoseconds(self.now)
    }

    /// Adds a line to the trace.
    pub fn note<T: Display>(&self, line: impl FnOnce() -> T) {
        self.trace.add_if(self.now, line);
    }

    /// Lets something happen so much later.
    pub fn after(&mut self, pause: u64, happening: Happening) {
        self.at(self.now + pause, happening);
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.serial += 1;
        self.queue.insert((at, self.serial), happening);
    }

    fn handle(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Arrives(arrival) => self.arrives(arrival),
            Happening::Routes(agent, arrival) => return self.routes(agent, &arrival),
            Happening::Expires(who) => return self.expires(who),
            Happening::Reads(who) => return self.reads(who),
            Happening::Acts(who) => return self.acts(who),
            Happening::Decides(number) => return self.decides(number),
            Happening::Answers(who, id) => return self.answers(who, id),
            Happening::Limit(number) => return self.model.check_limit(number, self.now),
            Happening::Dies(host, Some(slot), rest) => self.process_dies(host, slot, rest),
            Happening::Dies(host, None, rest) => self.agent_dies(host, rest),
            Happening::Begins(host, Some(slot)) => self.process_begins(host, slot),
            Happening::Begins(host, None) => self.agent_begins(host),
            Happening::TurnsFair => {
                self.note(|| "the network is fair");
                self.network = Network::new(self.plan.weather.made_fair(), self.dice.fork());
            }
            Happening::LetGo => return self.let_go(),
        }
        Ok(())
    }

    /// A process, if it is the one that lives.
    pub fn process(&mut self, who: Who) -> Option<&mut Process> {
        let process = self.hosts[who.host].processes.get_mut(&who.slot)?;
        (process.who == who).then_some(process)
    }

    fn expires(&mut self, who: Who) -> Result<(), String> {
        let time = self.time();
        let Some(process) = self.process(who) else { return Ok(()) };
        process.expires_at = u64::MAX;
        if process.manager.deadline() <= time {
            process.manager.expire(time);
        }
        self.settle(who).map(drop)
    }

    /// To be called after whatever was done with a manager: sends what it says, and sees to its
    /// deadline and its news. Returns the names of the messages.
    pub fn settle(&mut self, who: Who) -> Result<Vec<&'static str>, String> {
        let lag = self.dice.below(self.plan.lag_max + 1);
        let late = self.dice.below(MILLISECOND);
        let now = self.now;
        let Some(process) = self.process(who) else { return Ok(Vec::new()) };
        let messages: Vec<_> = core::iter::from_fn(|| process.manager.take_message()).collect();
        let deadline = process.manager.deadline();
        let expires = deadline < Time::NEVER && deadline.nanoseconds() < process.expires_at;
        if expires {
            process.expires_at = deadline.nanoseconds();
        }
        let reads = !core::mem::replace(&mut process.reads, true);
        self.model.falls_behind(who);
        if expires {
            self.at(deadline.nanoseconds().max(now) + late, Happening::Expires(who));
        }
        let mut said = Vec::new();
        for (path, mad) in messages {
            if let Ok((_, message)) = Message::parse(&mad) {
                said.push(text::name(&message));
                self.model.sends(who, &message);
            }
            self.send(&path, &mad);
        }
        match (reads, lag) {
            (true, 0) => self.reads(who)?,
            (true, _) => self.after(lag, Happening::Reads(who)),
            (false, _) => {}
        }
        Ok(said)
    }

    /// Puts a datagram on the network.
    pub fn send(&mut self, path: &AddressVector, mad: &Mad) {
        let frame = Frame {
            source: number_of(path.local),
            destination: number_of(path.remote),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            bytes: mad.to_vec(),
            checksum: 0,
        };
        let fate = self.network.decide(&frame, self.now);
        let (from, to) = (usize::from(frame.source) - 1, usize::from(frame.destination) - 1);
        self.note(|| format!("{from} -> {to}  {}{}", text::describe(mad), text::fate(&fate)));
        let arrival = || Happening::Arrives(Arrival { from, to, mad: Box::new(*mad) });
        if let Fate::Arrives { at, again, .. } = fate {
            self.at(at, arrival());
            if let Some(again) = again {
                self.at(again, arrival());
            }
        }
    }

    fn check_end(&self) -> Result<(), String> {
        let processes = self.hosts.iter().flat_map(|host| host.processes.values());
        for process in processes {
            let Process { who, manager, .. } = process;
            let (left, deadline) = (manager.connections(), manager.deadline());
            if left != 0 || deadline < Time::NEVER {
                return Err(format!("{who} still has {left} connections, deadline {deadline:?}"));
            }
        }
        self.model.check_end()
    }
}

/// The address of a host.
pub fn address(host: usize) -> Address {
    Family::Ipv6.address(host as u16 + 1)
}

/// The way from one host to another.
pub fn path(from: usize, to: usize) -> AddressVector {
    AddressVector {
        local: address(from),
        remote: address(to),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}
