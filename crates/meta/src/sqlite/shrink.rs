//! Giving pages that nothing uses back to the file system.

use super::SqliteCatalogue;
use crate::sql::engine::{Engine, Reading, Scope};
use crate::sql::query as sql;
use crate::sql::seam::{Flow, Link};
use crate::sql::tx::Tx;
use holdfast_base::Result;

/// Free pages that the file keeps, 4 MiB: the next burst needs them again; and pages cut in one step.
const FREE_PAGES_KEPT: i64 = 1_024;
const CUT_PAGES: i64 = 1_024;

impl SqliteCatalogue {
    /// Cuts the file step by step, so that writers get their turn in between.
    pub(super) async fn cut_free_pages(&self) -> Result<()> {
        let free = |link: &dyn Link| sql::only(link, "PRAGMA freelist_count", (), |row| row.get::<i64>(0));
        let mut any = false;
        loop {
            let surplus = self.read(Reading::Point, free).await? - FREE_PAGES_KEPT;
            if surplus <= 0 {
                break;
            }
            any = true;
            let cut = format!("PRAGMA incremental_vacuum({})", surplus.min(CUT_PAGES));
            // It answers a row for each page it cuts.
            let work = move |tx: &Tx<'_>| tx.query(&cut, &[], &mut |_| Ok(Flow::On));
            self.write("shrink", Scope::Alone, work).await?;
        }
        if any {
            // So much is gone that what connections remember of it is ballast.
            let forget = |tx: &Tx<'_>| tx.query("PRAGMA shrink_memory", &[], &mut |_| Ok(Flow::On));
            self.write("shrink", Scope::Alone, forget).await?;
            self.readers.forget_pages();
            self.scanners.forget_pages();
        }
        Ok(())
    }
}
