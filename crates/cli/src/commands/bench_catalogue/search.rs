//! The part of `holdfast bench catalogue` that searches.
//!
//! Among all the files lie [`NEEDLES`] with names and a tag of their own. What is looked for: one of them by its name, a file by the name of
//! a folder above it and its own, one letter or digit that a great part of all names has, and a tag.

use super::{Cost, Field, cost};
use anyhow::{Context, bail};
use holdfast_base::DrivePath;
use holdfast_meta::{HITS_MAX, SearchAnswer, SearchQuery, Tag, TagChange};
use std::time::{Duration, Instant};

/// Files with a name and a tag of their own.
const NEEDLES: u64 = 100;
/// Times each search is run at most: the slowest are some tens of milliseconds.
const SEARCHES: usize = 300;

impl Field {
    /// Makes the needles, at the first size.
    pub(super) async fn hide_needles(&self) -> anyhow::Result<()> {
        self.folder("needles").await?;
        let mut paths = Vec::new();
        for needle in 0..NEEDLES {
            let path = DrivePath::parse(&format!("needles/Needle{needle}.txt"))?;
            super::put(&*self.catalogue, self.space, &path, &self.guard()).await?;
            paths.push(path);
        }
        let change = TagChange { add: vec![Tag::new("In the haystack")?], remove: Vec::new() };
        for answer in self.catalogue.change_tags(self.space, &paths, &change, &self.guard()).await? {
            answer?;
        }
        Ok(())
    }

    /// Indexes everything that waits; answers how long that took.
    pub(super) async fn index(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while self.catalogue.index_words().await? {}
        Ok(began.elapsed())
    }

    /// Times searches.
    pub(super) async fn search_costs(&mut self, operations: usize) -> anyhow::Result<Vec<Cost>> {
        self.index().await?;
        let operations = operations.min(SEARCHES);
        let mut samples: [(&'static str, Vec<Duration>); 4] = [
            ("search: a name", Vec::new()),
            ("search: folder and name", Vec::new()),
            ("search: one letter", Vec::new()),
            ("search: a tag", Vec::new()),
        ];
        let [name, folder, letter, tag] = &mut samples;
        for _ in 0..operations {
            let needle = self.below(NEEDLES);
            let found = self.search(&words(&format!("needle{needle}")), &mut name.1).await?;
            found.hits.first().with_context(|| format!("needle {needle} is lost"))?;
            let (d, f) = (self.below(self.folders), self.below(super::FILES));
            let found = self.search(&words(&format!("d{d} f{f}")), &mut folder.1).await?;
            if (found.hits.len() as u64) < self.trees.min(HITS_MAX as u64) {
                bail!("of the files f{f} in folders d{d} only {} were found", found.hits.len());
            }
            let one = ["f", "1", "2", "5", "9"][usize::try_from(self.below(5)).unwrap_or(0)];
            let found = self.search(&words(one), &mut letter.1).await?;
            if !found.more || found.hits.len() < HITS_MAX {
                bail!("of all that has {one} in its name only {} were found", found.hits.len());
            }
            let tagged = SearchQuery { tags: vec![Tag::new("in the HAYSTACK")?], ..words("") };
            let found = self.search(&tagged, &mut tag.1).await?;
            if found.hits.len() as u64 != NEEDLES {
                bail!("of {NEEDLES} files with the tag {} were found", found.hits.len());
            }
        }
        Ok(samples.into_iter().map(|(operation, times)| cost(operation, times)).collect())
    }

    async fn search(&self, query: &SearchQuery, times: &mut Vec<Duration>) -> anyhow::Result<SearchAnswer> {
        let began = Instant::now();
        let found = self.catalogue.search(&[self.space.into()], query).await?;
        times.push(began.elapsed());
        Ok(found)
    }
}

fn words(text: &str) -> SearchQuery {
    SearchQuery { text: text.to_owned(), limit: HITS_MAX, ..SearchQuery::default() }
}
