//! What programs learn: the news of their managers, held against the model, and thought about.

use super::process::Who;
use super::world::{Happening, World};
use crate::addresses::number_of;
use converb_cm::manager::News;
use converb_engine::AddressVector;

impl World {
    /// A program reads its news.
    pub(super) fn reads(&mut self, who: Who) -> Result<(), String> {
        let Some(process) = self.process(who) else { return Ok(()) };
        process.reads = false;
        let news: Vec<News> = core::iter::from_fn(|| process.manager.take_news()).collect();
        for news in news {
            self.note(|| format!("{who} is told {}", shorten(&news)));
            self.learns(who, news)?;
        }
        self.model.catches_up(who)
    }

    fn learns(&mut self, who: Who, news: News) -> Result<(), String> {
        let (now, end) = (self.now(), self.plan.let_go_at);
        let pause = match self.process(who) {
            Some(process) if now < end => process.ponder(),
            _ => 0,
        };
        match news {
            News::Requested { listener, id, request, path } => {
                let from = host_of(&path);
                let number = self.model.is_asked(who, (listener, id), from, &request)?;
                self.after(pause, Happening::Decides(number));
            }
            News::Asked { listener, id, request, path } => {
                let name = (host_of(&path), request.request_id);
                self.model.is_wondered(who, (listener, id), name)?;
                self.after(pause, Happening::Answers(who, id));
            }
            News::Resolved { id, reply } => self.model.resolves(who, id, reply.as_deref(), now)?,
            News::Happened { id, event } => {
                let number = self.model.happens(who, id, &event, now)?;
                self.give_back(number);
                self.after(pause, Happening::Decides(number));
            }
        }
        Ok(())
    }
}

fn host_of(path: &AddressVector) -> usize {
    usize::from(number_of(path.remote)) - 1
}

fn shorten(news: &News) -> String {
    match news {
        News::Requested { listener, id, .. } => format!("of a request, {id:08x} at {listener}"),
        News::Asked { listener, id, .. } => format!("of a question, {id:08x} at {listener}"),
        News::Resolved { id, reply } => {
            let status = reply.as_ref().map(|reply| reply.status);
            format!("the answer to {id:08x}: {status:?}")
        }
        News::Happened { id, event } => {
            let event = format!("{event:?}");
            let end = event.find(['(', ' ']).unwrap_or(event.len());
            format!("{id:08x}: {}", &event[..end])
        }
    }
}
