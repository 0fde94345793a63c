//! A space while an operation changes it: its sums, its bounds, and the one place where quota is tested.
//!
//! An operation loads the state, changes the sums in memory next to the rows it changes, and saves. Saving tests the
//! quota: only an operation that ends with more bytes used and reserved than it began with can be over it, so deleting,
//! purging and committing what was reserved always work.

use super::codec::{role_number, signed, unsigned};
use super::fault::{Done, refuse};
use super::query as sql;
use super::seam::Link;
use super::shares;
use super::tx::Tx;
use crate::catalogue::{Change, Guard, Noted, Touched};
use crate::types::{Account, Retention, Role, Space};
use holdfast_base::size::format_bytes;
use holdfast_base::{AccountId, Error, ErrorKind, NodeId, SpaceId};

/// A space's sums and bounds.
#[derive(Debug, Clone)]
pub(super) struct SpaceState {
    pub(super) id: SpaceId,
    owner: AccountId,
    pub(super) root: i64,
    pub(super) retention: Retention,
    quota_bytes: Option<u64>,
    account_quota_bytes: Option<u64>,
    pub(super) seq: i64,
    pub(super) used: i64,
    pub(super) version: i64,
    pub(super) reserved: i64,
    pub(super) raw: i64,
    pub(super) sealed: i64,
    /// Rows in `node_lock`, live or lapsed.
    pub(super) locks: i64,
    pub(super) versions_dropped: i64,
    /// Whether any file has, or had, several names.
    pub(super) bonds: bool,
    before: i64,
    seq_before: i64,
    /// The mount that asks, or 0.
    by: u64,
    /// The same, also where that has to look again.
    maker: u64,
    touched: Touched,
}

/// What an account is to a space that it changes.
struct Writer {
    role: Option<i64>,
    disabled: bool,
}

impl SpaceState {
    /// Loads a space; `NotFound` if it is gone.
    pub(super) fn load(tx: &Tx<'_>, id: SpaceId) -> Done<Self> {
        Self::find(tx, id)?.ok_or_else(|| Error::not_found("there is no such space").into())
    }

    /// Loads a space for a change; `NotFound` if it is gone, or if the membership or share that the change comes in through is; `Forbidden` if the
    /// account was disabled. What began long ago must not end in a space that its writer was put out of meanwhile.
    pub(super) fn load_for(tx: &Tx<'_>, id: SpaceId, guard: &Guard) -> Done<Self> {
        let found = Self::find_with_role(tx, id, guard.account)?;
        let (mut state, Writer { role, disabled }) = found.ok_or_else(|| Error::not_found("there is no such space"))?;
        if guard.through.iter().any(|through| through.space == id) {
            shares::check(tx, &state, guard)?;
        } else {
            check_role(role)?;
        }
        if disabled {
            return refuse(ErrorKind::Forbidden, "this account was disabled: ask an administrator");
        }
        (state.by, state.maker) = (guard.mount, guard.mount);
        Ok(state)
    }

    /// Loads a space unless it is gone.
    pub(super) fn find(tx: &Tx<'_>, id: SpaceId) -> Done<Option<Self>> {
        Ok(Self::find_with_role(tx, id, AccountId(0))?.map(|(state, _)| state))
    }

    /// The same, with what an account is to it.
    fn find_with_role(tx: &Tx<'_>, id: SpaceId, who: AccountId) -> Done<Option<(Self, Writer)>> {
        tx.lock_space(id)?;
        let sql = "SELECT space.owner_id, root_id, retention_days, versions_max, bytes_max, space.quota_bytes, \
                   account.quota_bytes, seq, used_bytes, version_bytes, reserved_bytes, raw_bytes, sealed_bytes, locks, \
                   versions_dropped, thinned_ms IS NOT NULL, \
                   (SELECT role FROM member WHERE member.space_id = space.id AND member.account_id = ?2), \
                   (SELECT disabled FROM account AS writer WHERE writer.id = ?2), \
                   EXISTS (SELECT 1 FROM bond WHERE bond.space_id = space.id) \
                   FROM space JOIN space_sum ON space_id = space.id JOIN account ON account.id = owner_id \
                   WHERE space.id = ?1";
        sql::first(tx, sql, (id.0, who.0), |row| {
            let (used, reserved): (i64, i64) = (row.get(8)?, row.get(10)?);
            let state = Self {
                id,
                owner: AccountId(row.get(0)?),
                root: row.get(1)?,
                retention: Retention {
                    days: row.get(2)?,
                    versions_max: row.get(3)?,
                    bytes_max: row.get(4)?,
                    thin: row.get(15)?,
                },
                quota_bytes: row.get(5)?,
                account_quota_bytes: row.get(6)?,
                seq: row.get(7)?,
                seq_before: row.get(7)?,
                used,
                version: row.get(9)?,
                reserved,
                raw: row.get(11)?,
                sealed: row.get(12)?,
                locks: row.get(13)?,
                versions_dropped: row.get(14)?,
                bonds: row.get(18)?,
                before: used + reserved,
                by: 0,
                maker: 0,
                touched: Touched::default(),
            };
            let disabled = row.get::<Option<bool>>(17)?.unwrap_or(false);
            Ok((state, Writer { role: row.get(16)?, disabled }))
        })
    }

    /// Counts a change and answers its number. Which folders it is about is not told.
    pub(super) fn next_seq(&mut self) -> i64 {
        self.touched = Touched::All;
        self.seq += 1;
        self.seq
    }

    /// Counts a change of names in these folders, or of what has a name in them, and answers its number. A folder that is changed itself, moved or removed is one
    /// of them.
    pub(super) fn next_seq_in(&mut self, folders: impl IntoIterator<Item = NodeId>) -> i64 {
        self.touches(folders);
        self.seq += 1;
        self.seq
    }

    /// A change that is counted is about these folders, too.
    pub(super) fn touches(&mut self, folders: impl IntoIterator<Item = NodeId>) {
        self.touched.add(folders);
    }

    /// What changes is more than it is said to be about: whoever asked must look again as all others do.
    pub(super) fn is_of_more(&mut self) {
        self.by = 0;
        self.touched = Touched::All;
    }

    /// Parent number under which the space's trash, purged subtrees and nodes in the middle of a move hang.
    pub(super) const fn limbo(&self) -> i64 {
        -self.id.0
    }

    /// Tests the quota and writes the sums.
    pub(super) fn save(&self, tx: &Tx<'_>) -> Done<()> {
        self.admit(tx)?;
        let sql = "UPDATE space_sum SET seq = ?2, used_bytes = ?3, version_bytes = ?4, reserved_bytes = ?5, raw_bytes = ?6, \
                   sealed_bytes = ?7, versions_dropped = ?8, locks = ?9 WHERE space_id = ?1";
        let (used, version, reserved) = (self.used, self.version, self.reserved);
        let (raw, sealed) = (self.raw, self.sealed);
        let sums = (self.id.0, self.seq, used, version, reserved, raw, sealed, self.versions_dropped, self.locks);
        sql::put(tx, sql, sums)?;
        if self.seq != self.seq_before {
            let change = Change { space: self.id, since: self.seq_before, seq: self.seq, by: self.by };
            tx.changed(Noted { change, touched: self.touched.clone(), maker: self.maker });
        }
        Ok(())
    }

    /// `NoSpace` if the operation added bytes and there are more now than a quota allows.
    pub(super) fn admit(&self, tx: &Tx<'_>) -> Done<()> {
        let now = self.used.saturating_add(self.reserved);
        let grown = now.saturating_sub(self.before);
        if grown <= 0 {
            return Ok(());
        }
        if let Some(quota) = self.quota_bytes
            && now > signed(quota)
        {
            return over_quota("space", quota, self.before);
        }
        if let Some(quota) = self.account_quota_bytes {
            tx.lock_account(self.owner)?;
            let before = account_bytes(tx, self.owner)?;
            if before.saturating_add(grown) > signed(quota) {
                return over_quota("account", quota, before);
            }
        }
        Ok(())
    }
}

/// Refuses whoever may not change anything in a space.
fn check_role(role: Option<i64>) -> Done<()> {
    match role {
        None => refuse(ErrorKind::NotFound, "there is no such space, or you are not a member of it any more"),
        Some(role) if role == role_number(Role::Reader) => {
            refuse(ErrorKind::Forbidden, "your role in this space allows reading only")
        }
        Some(_) => Ok(()),
    }
}

fn over_quota<T>(whose: &str, quota: u64, used: i64) -> Done<T> {
    let free = quota.saturating_sub(unsigned(used));
    refuse(
        ErrorKind::NoSpace,
        format!(
            "the {whose}'s quota of {} leaves {} free: delete something or ask for more",
            format_bytes(quota),
            format_bytes(free)
        ),
    )
}

/// `NoSpace` if an account has no room in its quota for a space that is about to become its own.
pub(super) fn admit_owner(tx: &Tx<'_>, account: &Account, space: &Space) -> Done<()> {
    let Some(quota) = account.quota_bytes else { return Ok(()) };
    tx.lock_account(account.id)?;
    let before = account_bytes(tx, account.id)?;
    let more = signed(space.usage.used_bytes.saturating_add(space.usage.reserved_bytes));
    if before.saturating_add(more) > signed(quota) { over_quota("account", quota, before) } else { Ok(()) }
}

/// Bytes used and reserved by all spaces an account owns.
pub(super) fn account_bytes(link: &dyn Link, account: AccountId) -> Done<i64> {
    let sql = "SELECT CAST(coalesce(sum(used_bytes + reserved_bytes), 0) AS BIGINT) FROM space JOIN space_sum ON space_id = space.id \
               WHERE owner_id = ?1";
    sql::only(link, sql, [account.0], |row| row.get(0))
}
