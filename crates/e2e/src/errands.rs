//! People at the API who do what pages do until the server is gone, and then judge what is left of it: shares, members, tokens, sessions,
//! passkeys, codes, uploads in parts.
//!
//! An [`Errand`] is alone with its subject, so it knows what must be there. When a request gets no answer, or one that says the server could
//! not (5xx), it was done or not: both are right, a mixture is not. What was acknowledged must be there, and work: a link opens, a token signs in, an
//! upload goes on where it said it stood.

mod factors;
mod shares;
mod uploads;
mod ways;

pub use factors::{Codes, Passkeys};
pub use shares::{Members, Shares};
pub use uploads::Uploads;
pub use ways::{Sessions, Tokens};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use holdfast_testkit::http::{Request, Response};
use holdfast_testkit::rng::Prng;
use holdfast_testkit::server::{ServerOptions, TestServer};
use serde_json::Value;

use crate::Outcome;
use crate::browser::Page;
use crate::rig::{NAME, PASSWORD};

/// Somebody to share with.
pub const OTHER: &str = "ben";
/// Their password.
pub const OTHER_PASSWORD: &str = "a ladder of wet granite";

/// One subject, and what was acknowledged of it.
pub trait Errand: Send {
    /// Makes one request that changes something, drawn at random; whether it was answered.
    fn step(&mut self, at: &mut Desk, rng: &mut Prng) -> Outcome<bool>;

    /// Compares everything with what was acknowledged, and takes over which of two happened where no answer came.
    fn judge(&mut self, at: &mut Desk) -> Outcome;
}

/// Where an errand is run: the pages of the two people at the present server.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Whose things they are.
    pub ann: Page,
    /// With whom they are shared.
    pub ben: Page,
    /// Statuses of answers that said the server could not.
    pub refusals: Vec<u16>,
}

impl Desk {
    /// Makes the second account; nobody is disturbed yet.
    pub fn prepare(options: &ServerOptions) -> Outcome {
        options.add_account(OTHER, OTHER_PASSWORD)?;
        Ok(())
    }

    /// Two browsers that have signed in.
    pub fn open(server: &TestServer) -> Outcome<Self> {
        let ann = Page::signed_in(server, NAME, PASSWORD)?;
        Ok(Self { ann, ben: Page::signed_in(server, OTHER, OTHER_PASSWORD)?, refusals: Vec::new() })
    }

    /// The same browsers after the server was started again: they are signed in still.
    #[must_use]
    pub fn again(&self, server: &TestServer) -> Self {
        Self { ann: self.ann.at(server), ben: self.ben.at(server), refusals: Vec::new() }
    }

    /// What ann asks with JSON: the answer, or none if there was none or the server could not.
    fn ask(&mut self, method: &str, path: &str, body: &Value, right: &[u16]) -> Outcome<Option<Response>> {
        let heard = self.ann.call(method, path, body);
        self.heard(&format!("{method} {path} {body}"), heard, right)
    }

    /// The same of any request.
    fn send(&mut self, request: &Request, right: &[u16]) -> Outcome<Option<Response>> {
        let heard = self.ann.client.send(request).map_err(Into::into);
        self.heard("an upload", heard, right)
    }

    fn heard(&mut self, what: &str, heard: Outcome<Response>, right: &[u16]) -> Outcome<Option<Response>> {
        match heard {
            Ok(answer) if right.contains(&answer.status) => Ok(Some(answer)),
            Ok(answer) if answer.status >= 500 => {
                self.refusals.push(answer.status);
                Ok(None)
            }
            Ok(answer) => Err(format!("{what} was answered with {}: {}", answer.status, answer.text()).into()),
            Err(_) => Ok(None),
        }
    }
}

/// What is known of some named things, and of the one change that was not answered.
#[derive(Debug, Default)]
struct Known<T> {
    things: BTreeMap<String, T>,
    /// Its name, and what it is if the change was made.
    unanswered: Option<(String, Option<T>)>,
    named: u64,
}

impl<T: Clone + PartialEq + std::fmt::Debug> Known<T> {
    fn new_name(&mut self, of: &str) -> String {
        self.named += 1;
        format!("{of}{}", self.named)
    }

    fn any(&self, rng: &mut Prng) -> Option<(String, T)> {
        let names: Vec<&String> = self.things.keys().collect();
        let name = (!names.is_empty()).then(|| names[rng.index(names.len())])?;
        Some((name.clone(), self.things[name].clone()))
    }

    fn set(&mut self, name: String, thing: Option<T>) {
        match thing {
            Some(thing) => self.things.insert(name, thing),
            None => self.things.remove(&name),
        };
    }

    /// After a change: it was answered, or may have been made.
    fn changed(&mut self, name: String, thing: Option<T>, answered: bool) -> bool {
        if answered {
            self.set(name, thing);
        } else {
            self.unanswered = Some((name, thing));
        }
        answered
    }

    /// `found` is what is there: it must be what is known, but for the change that was not answered.
    fn compare(&mut self, found: &BTreeMap<String, T>) -> Outcome {
        if let Some((name, thing)) = self.unanswered.take()
            && found.get(&name) == thing.as_ref()
        {
            self.set(name, thing);
        }
        if *found == self.things {
            return Ok(());
        }
        Err(format!("there is {found:?} instead of {:?}", self.things).into())
    }
}

/// The objects of a list by what one of their members says.
fn by<'v>(list: &'v Value, member: &str) -> Outcome<BTreeMap<String, &'v Value>> {
    let list = list.as_array().ok_or("this is no list")?;
    let named = |item: &'v Value| Some((item[member].as_str()?.to_owned(), item));
    Ok(list.iter().filter_map(named).collect())
}

/// Several errands at once.
pub struct Errands(Vec<(Box<dyn Errand>, Prng)>);

impl Errands {
    /// One of each kind.
    pub fn all(seed: u64, desk: &mut Desk) -> Outcome<Self> {
        let errands: Vec<Box<dyn Errand>> = vec![
            Box::new(Shares::new(desk)?),
            Box::new(Members::default()),
            Box::new(Tokens::default()),
            Box::new(Sessions::default()),
            Box::new(Passkeys::default()),
            Box::new(Codes::new(desk)?),
            Box::new(Uploads::new(desk)?),
        ];
        let mut rng = Prng::new(seed);
        Ok(Self(errands.into_iter().map(|errand| (errand, rng.fork())).collect()))
    }

    /// All go on at once until a request is not answered, or for so many each. Answers how many were answered, and the statuses of
    /// those that the server could not do.
    pub fn run(&mut self, desk: &Desk, steps: u64) -> Outcome<(u64, Vec<u16>)> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let over = &over;
            let run = move |(errand, rng): &mut (Box<dyn Errand>, Prng)| -> Outcome<(u64, Vec<u16>)> {
                let mut desk = desk.clone();
                let mut done = 0;
                while done < steps && !over.load(Ordering::Relaxed) {
                    let answered = errand.step(&mut desk, rng);
                    done += u64::from(matches!(answered, Ok(true)));
                    // Where one hears nothing, all are done: some only wait.
                    over.fetch_or(!answered?, Ordering::Relaxed);
                }
                Ok((done, desk.refusals))
            };
            let threads: Vec<_> = self.0.iter_mut().map(|errand| scope.spawn(move || run(errand))).collect();
            let mut all = (0, Vec::new());
            for thread in threads {
                let (done, refusals) = thread.join().map_err(|_| "an errand panicked")??;
                all.0 += done;
                all.1.extend(refusals);
            }
            Ok(all)
        })
    }

    /// All judge, one after the other.
    pub fn judge(&mut self, desk: &Desk) -> Outcome {
        self.0.iter_mut().try_for_each(|(errand, _)| errand.judge(&mut desk.clone()))
    }
}
