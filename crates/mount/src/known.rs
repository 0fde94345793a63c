//! What the kernel has of files: of which content its pages are, and the size of which content it was told.
//!
//! The kernel reads up to the size it knows, and asks for it only when it believes that no longer. So whoever opens a file that another has written must not find the
//! size of before, or would read the new content cut off. What the kernel was told last is written down here, with every answer; an open, or a lock that
//! has just come, has it ask again if that is not what the file is now ([`Core::has_only`](crate::core::Core::has_only)).
//!
//! **The answer is not always taken.** An answer about attributes is lost on the kernel if it was told meanwhile to ask again, or took another. So what it
//! was told is right for sure only if nothing else was told before, and nothing had it ask again.

use fuser::INodeNo;
use holdfast_base::ContentId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// So many files are remembered.
const FILES_MAX: usize = 64 * 1_024;
/// Longest that an answer is under way.
const ON_ITS_WAY: Duration = Duration::from_mins(1);

/// What there are pages of; the content of an empty file is none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    None,
    Of(Option<ContentId>),
    /// Of more than one content, perhaps.
    Mixed,
}

struct Has {
    pages: Pages,
    /// What it was told the size of last.
    told: Option<ContentId>,
    /// It believes that size, or asks again and will be told it.
    is_sure: bool,
}

/// What there is for who opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Pages of this content alone, and its size.
    This,
    /// Its size, and no pages.
    Size,
    /// What has to be forgotten before.
    Other,
}

#[derive(Default)]
struct Files {
    of: HashMap<INodeNo, Has>,
    /// When some of it was no longer remembered.
    lost: Option<Instant>,
    /// Files with pages were among that.
    has_lost_pages: bool,
}

/// What one mount's kernel has.
#[derive(Default)]
pub(crate) struct Known(Mutex<Files>);

impl Files {
    fn entry(&mut self, ino: INodeNo, told: Option<ContentId>) -> &mut Has {
        if self.of.len() >= FILES_MAX && !self.of.contains_key(&ino) {
            self.of.retain(|_, has| has.pages != Pages::None);
            // Most of it, or this is for nothing.
            if self.of.len() > FILES_MAX / 2 {
                self.of.clear();
                self.has_lost_pages = true;
            }
            self.lost = Some(Instant::now());
        }
        let pages = if self.has_lost_pages { Pages::Mixed } else { Pages::None };
        let lost = &self.lost;
        self.of.entry(ino).or_insert_with(|| {
            let is_sure = lost.is_none_or(|lost| lost.elapsed() > ON_ITS_WAY);
            Has { pages, told, is_sure }
        })
    }
}

impl Known {
    /// An answer is about to say how long a file is that has this content.
    pub(crate) fn tells(&self, ino: INodeNo, content: Option<ContentId>) {
        let mut files = self.0.lock();
        let has = files.entry(ino, content);
        has.is_sure &= has.told == content;
        has.told = content;
    }

    /// What there is of this content.
    pub(crate) fn find(&self, ino: INodeNo, content: Option<ContentId>) -> Found {
        let mut files = self.0.lock();
        let has = files.entry(ino, content);
        match has.pages {
            _ if has.told != content || !has.is_sure => Found::Other,
            Pages::Of(of) if of == content => Found::This,
            Pages::None => Found::Size,
            Pages::Of(_) | Pages::Mixed => Found::Other,
        }
    }

    /// There is this content alone from now on, and if the kernel asks for its size, nothing is in the way of the answer.
    pub(crate) fn has_only(&self, ino: INodeNo, content: Option<ContentId>) {
        let has = Has { pages: Pages::Of(content), told: content, is_sure: true };
        let mut files = self.0.lock();
        *files.entry(ino, content) = has;
    }

    /// What programs here wrote over one content has become another.
    pub(crate) fn saved(&self, ino: INodeNo, from: Option<ContentId>, to: Option<ContentId>) {
        let mut files = self.0.lock();
        let has = files.entry(ino, from);
        has.is_sure &= has.told == from;
        has.told = to;
        has.pages = match has.pages {
            Pages::None => Pages::None,
            pages if pages == Pages::Of(from) => Pages::Of(to),
            _ => Pages::Mixed,
        };
    }

    /// The kernel is told to ask again.
    pub(crate) fn is_unsure(&self, ino: INodeNo) {
        if let Some(has) = self.0.lock().of.get_mut(&ino) {
            has.is_sure = false;
        }
    }

    /// Files that there may be pages of, which are about to be forgotten.
    pub(crate) fn with_pages(&self) -> Vec<INodeNo> {
        let mut files = self.0.lock();
        let with_pages = files.of.iter_mut().filter(|(_, has)| has.pages != Pages::None);
        with_pages
            .map(|(ino, has)| {
                (has.pages, has.is_sure) = (Pages::Mixed, false);
                *ino
            })
            .collect()
    }

    /// It may have what is not there, or elsewhere.
    pub(crate) fn is_mixed(&self, ino: INodeNo) {
        if let Some(has) = self.0.lock().of.get_mut(&ino) {
            (has.pages, has.is_sure) = (Pages::Mixed, false);
        }
    }
}

#[cfg(test)]
mod tests;
