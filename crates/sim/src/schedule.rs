//! Who runs next: a seed decides. The clock's thread, the first one, runs when all others wait.

use crate::dice::Dice;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the scheduler and the world tell each other.
#[derive(Debug, Default)]
pub struct Control {
    /// The run ends at once.
    pub halted: AtomicBool,
    /// The clock was chosen because all other threads wait.
    pub is_idle: AtomicBool,
}

/// How threads take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The running thread goes on this often in a thousand; else anyone may.
    Sticky(u32),
    /// Threads have priorities; this often in a thousand the running one becomes the last.
    Priorities(u32),
}

/// The scheduler of one run.
#[derive(Debug)]
pub struct SeededScheduler {
    dice: Dice,
    seed: u64,
    policy: Policy,
    priorities: Vec<u64>,
    lowest: u64,
    control: Arc<Control>,
    has_run: bool,
}

const CLOCK: usize = 0;
/// How often, in a thousand, the clock goes on although somebody could run: a thread that the
/// kernel does not run for a while.
const EARLY_CLOCK: u32 = 10;

impl SeededScheduler {
    /// A scheduler that ends the run as soon as it is told to halt.
    pub fn new(seed: u64, policy: Policy, control: Arc<Control>) -> Self {
        Self {
            dice: Dice::new(seed),
            seed,
            policy,
            priorities: Vec::new(),
            lowest: u64::MAX / 2,
            control,
            has_run: false,
        }
    }

    fn by_priority(
        &mut self,
        tasks: &[usize],
        current: Option<usize>,
        yields: bool,
        demote: u32,
    ) -> usize {
        while self.priorities.len() <= tasks.iter().copied().max().unwrap_or(0) {
            let priority = u64::MAX / 2 + self.dice.below(u64::MAX / 2);
            self.priorities.push(priority);
        }
        if let Some(current) = current
            && current < self.priorities.len()
            && (yields || self.dice.chance(demote))
        {
            self.lowest -= 1;
            self.priorities[current] = self.lowest;
        }
        let highest = tasks.iter().copied().max_by_key(|&task| self.priorities[task]);
        highest.unwrap_or(CLOCK)
    }
}

impl Scheduler for SeededScheduler {
    fn new_execution(&mut self) -> Option<Schedule> {
        if core::mem::replace(&mut self.has_run, true) {
            return None;
        }
        Some(Schedule::new(self.seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if self.control.halted.load(Ordering::Relaxed) {
            return None;
        }
        let current = current.map(usize::from);
        let mut tasks = [0; 64];
        let mut count = 0;
        let mut clock_can_run = false;
        for task in runnable {
            let task = usize::from(task.id());
            if task == CLOCK {
                clock_can_run = true;
            } else if count < tasks.len() {
                tasks[count] = task;
                count += 1;
            }
        }
        let tasks = &tasks[..count];
        if tasks.is_empty() || (clock_can_run && self.dice.chance(EARLY_CLOCK)) {
            self.control.is_idle.store(tasks.is_empty(), Ordering::Relaxed);
            return Some(TaskId::from(CLOCK));
        }
        let next = match self.policy {
            Policy::Sticky(stay) => match current {
                Some(current)
                    if !is_yielding && tasks.contains(&current) && self.dice.chance(stay) =>
                {
                    current
                }
                _ => self.dice.pick(tasks),
            },
            Policy::Priorities(demote) => self.by_priority(tasks, current, is_yielding, demote),
        };
        Some(TaskId::from(next))
    }

    fn next_u64(&mut self) -> u64 {
        self.dice.next()
    }
}
