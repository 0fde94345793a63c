//! What mounts answered and did not hand over, handed over without them: by a server that starts on their data directory.
//!
//! A journal holds names, and content that is sealed already, so no key is needed for it; but whose changes they are is, which is in a file beside it.

use super::replay::{Without, go_through};
use super::{left, lock};
use holdfast_base::{AccountId, Error, ErrorKind, Result, SpaceId};
use holdfast_drive::engine::Engine;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Whose journals they are.
const OWNER: &str = "owner";
/// The same while it is written.
const OWNER_ASIDE: &str = "owner.new";
/// Longest such file that is read.
const OWNER_BYTES_MAX: u64 = 4 << 10;

/// Whose changes the journals of a folder are, and in which space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    account: i64,
    space: i64,
}

/// Notes whose journals are in a folder, before there are any.
pub fn note_owner(folder: &Path, account: AccountId, space: SpaceId) -> Result<()> {
    let at = |error: std::io::Error| Error::from(error).context(folder.display());
    let owner = Owner { account: account.0, space: space.0 };
    fs::create_dir_all(folder).map_err(at)?;
    if read_owner(folder)? == Some(owner) {
        return Ok(());
    }
    let text = serde_json::to_vec(&owner).map_err(|error| Error::internal(error.to_string()))?;
    let aside = folder.join(OWNER_ASIDE);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside).map_err(at)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(at)?;
    fs::rename(&aside, folder.join(OWNER)).and_then(|()| File::open(folder)?.sync_all()).map_err(at)
}

fn read_owner(folder: &Path) -> Result<Option<Owner>> {
    let path = folder.join(OWNER);
    let at = |error: std::io::Error| Error::from(error).context(path.display());
    let mut text = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(OWNER_BYTES_MAX).read_to_end(&mut text).map_err(at)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(error)),
    };
    // One that cannot be read is written again by the next mount.
    Ok(serde_json::from_slice(&text).ok())
}

/// Hands over what mounts left in the folders below `mounts`, so that every face shows it. What belongs to a mount that runs is left alone; what cannot be
/// handed over stays for the next mount, and the log says so.
pub async fn recover(engine: &Engine, mounts: &Path) -> Result<()> {
    let folders = match fs::read_dir(mounts) {
        Ok(folders) => folders,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::from(error).context(mounts.display())),
    };
    for folder in folders {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        if let Err(error) = recover_one(engine, &folder).await {
            let folder = folder.display();
            tracing::error!(%error, %folder, "what a mount answered before its end is not shown until the space is mounted again");
        }
    }
    Ok(())
}

async fn recover_one(engine: &Engine, folder: &Path) -> Result<()> {
    let _lock = match lock(folder) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::Conflict => {
            tracing::info!(folder = %folder.display(), "a mount uses its journal: it hands over what is in it");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut left = left::left_in(folder)?;
    if left.iter().all(|left| left.changes.is_empty()) {
        return Ok(());
    }
    let owner = read_owner(folder)?.ok_or_else(|| Error::not_found("it is not known whose journal it is"))?;
    let (account, space) = (AccountId(owner.account), SpaceId(owner.space));
    let seq = engine.catalogue().standing(space).await?.map(|standing| standing.seq);
    left.iter_mut().try_for_each(|left| left.cut(seq))?;
    let found = engine.catalogue().space(space).await?;
    let found = found.ok_or_else(|| Error::not_found("the space is gone of which it is the journal"))?;
    let taker = Without { engine, account, space: (space, found.uid) };
    for mut left in left {
        let refused = go_through(std::slice::from_mut(&mut left), &taker).await?;
        engine.catalogue().settle().await?;
        match refused.first() {
            None => left.remove()?,
            Some((change, error, _)) => {
                let (node, refused) = (change.node(), refused.len());
                tracing::error!(%node, %error, refused, "changes that a mount answered are refused: they stay in its journal");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_journals_they_are_is_noted_once_and_again_if_it_is_damaged() {
        let temp = tempfile::tempdir().expect("a folder");
        let folder = temp.path().join("7");
        note_owner(&folder, AccountId(1), SpaceId(2)).expect("noted");
        assert_eq!(read_owner(&folder).expect("reads"), Some(Owner { account: 1, space: 2 }));
        fs::write(folder.join(OWNER), "{").expect("written");
        assert_eq!(read_owner(&folder).expect("reads"), None);
        note_owner(&folder, AccountId(3), SpaceId(2)).expect("noted");
        assert_eq!(read_owner(&folder).expect("reads"), Some(Owner { account: 3, space: 2 }));
        assert!(!folder.join(OWNER_ASIDE).exists());
    }
}
