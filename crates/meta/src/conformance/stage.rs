//! What the cases have in common: an account with its home space, and short ways to say usual things.

use crate::catalogue::{Catalogue, Changed, Expect, Guard, Relocation};
use crate::cluster::InstanceId;
use crate::types::{
    Account, Durable, Entry, HITS_MAX, NewAccount, NewContent, NewLock, NewName, NewSlot, Node, NodeKind, Place, Posix,
    Retention, SearchAnswer, SearchQuery, SlotKind, Space, SpaceChange, StagedBlock, StagedRun, Tag, TagChange, Usage,
};
use holdfast_base::{AccountId, BlockId, DrivePath, Error, ErrorKind, NodeId, PackId, PackName, Result, SpaceId, Uid};
use std::sync::Arc;

/// An instance that never joined: what it has is nobody's.
pub const THIS: InstanceId = InstanceId(0);
/// Bytes of each block the cases stage.
pub const BLOCK: u32 = 1_000;

/// A catalogue with one account, at its home space.
pub struct Stage {
    /// The catalogue.
    pub catalogue: Arc<dyn Catalogue>,
    /// The account, "ana".
    pub account: Account,
    /// Its home space.
    pub space: SpaceId,
}

/// Parses a path that is known to be good.
pub fn path(text: &str) -> DrivePath {
    DrivePath::parse(text).expect("a good path")
}

/// The kind of the error that something ended with.
pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("this should have been refused").kind()
}

impl Stage {
    /// Makes the account.
    pub async fn new(catalogue: &Arc<dyn Catalogue>) -> Self {
        let (account, space) = Self::account(catalogue, "ana").await;
        Self { catalogue: Arc::clone(catalogue), account, space: space.id }
    }

    /// Makes an account with a password and a recovery code, and answers it with its home.
    pub async fn account(catalogue: &Arc<dyn Catalogue>, name: &str) -> (Account, Space) {
        let mut uid = [0; 16];
        uid.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        let home_uid = uid.map(|byte| byte ^ 0xff);
        let new = NewAccount {
            uid: Uid(uid),
            name: name.to_owned(),
            admin: false,
            public_key: [5; 32],
            quota_bytes: None,
            slots: vec![slot(SlotKind::Password, ""), slot(SlotKind::Recovery, "")],
            home_uid: Uid(home_uid),
            home_wrapped_key: vec![6; 60],
            now_ms: 1_000,
        };
        let account = catalogue.create_account(new).await.expect("a new account");
        let home = catalogue.space_by_name(name, account.id).await.expect("reads").expect("a home").0;
        (account, home)
    }

    /// A guard of the account that expects nothing.
    pub fn guard(&self) -> Guard {
        self.guard_at(2_000)
    }

    /// The same at another time.
    pub fn guard_at(&self, now_ms: i64) -> Guard {
        guard_of(self.account.id, now_ms)
    }

    /// The same with an expectation.
    pub fn expecting(&self, expect: Expect) -> Guard {
        Guard { expect, ..self.guard() }
    }

    /// The same with lock tokens.
    pub fn holding(&self, tokens: &[&str]) -> Guard {
        Guard { tokens: tokens.iter().map(|&token| token.to_owned()).collect(), ..self.guard() }
    }

    /// Makes a folder.
    pub async fn folder(&self, at: &str) -> Node {
        self.catalogue.make_folder(self.space, &path(at), &self.guard()).await.expect(at)
    }

    /// Writes a file of so many bytes.
    pub async fn write(&self, at: &str, size: u64) -> Changed {
        self.try_write(at, size, &self.guard()).await.expect(at)
    }

    /// Tries to write a file of so many bytes.
    pub async fn try_write(&self, at: &str, size: u64, guard: &Guard) -> Result<Changed> {
        let content = inline(size);
        let written = self.catalogue.commit_file(self.space, &path(at), content, guard.now_ms, guard).await?;
        Ok(written.expect("inline content misses no blocks"))
    }

    /// Removes a node.
    pub async fn remove(&self, at: &str) -> Result<()> {
        self.catalogue.remove(self.space, &path(at), &self.guard()).await.map(|_| ())
    }

    /// Moves without or with overwriting.
    pub async fn relocate(&self, from: &str, to: &str, overwrite: bool) -> Result<Changed> {
        self.catalogue.relocate(&self.relocation(from, to, overwrite), &self.guard()).await
    }

    /// Copies a tree without or with overwriting.
    pub async fn copy(&self, from: &str, to: &str, overwrite: bool) -> Result<Changed> {
        self.catalogue.copy(&self.relocation(from, to, overwrite), &self.guard()).await
    }

    /// Gives the file at a path another name.
    pub async fn link(&self, from: &DrivePath, to: &DrivePath, guard: &Guard) -> Result<Entry> {
        let found = self.catalogue.find(self.space, from, false).await?;
        let node = found.node(from).ok_or_else(|| Error::not_found("there is nothing to be linked"))?.id;
        let folder = to.parent().unwrap_or_else(DrivePath::root);
        let found = self.catalogue.find(self.space, &folder, false).await?;
        // A folder that is not there has a number that nothing has.
        let parent = found.node(&folder).map_or(NodeId(i64::MAX), |folder| folder.id);
        let name = to.name().ok_or_else(|| Error::forbidden("the root has no name"))?.clone();
        let link = NewName { node, parent, name, now_ns: 5 };
        let usual = Posix { mode: 0o600, ..Posix::default() };
        self.catalogue.link(self.space, link, usual, guard, Durable::Soon).await
    }

    /// A relocation of a whole tree.
    pub fn relocation(&self, from: &str, to: &str, overwrite: bool) -> Relocation {
        Relocation {
            space: self.space,
            from: path(from),
            to: path(to),
            overwrite,
            deep: true,
            source_expect: Expect::Any,
            tags: Vec::new(),
        }
    }

    /// What is at a path.
    pub async fn node(&self, at: &str) -> Option<Node> {
        let found = self.catalogue.find(self.space, &path(at), false).await.expect("reads");
        found.node(&path(at)).cloned()
    }

    /// Every path of the space, sorted; folders end with a slash.
    pub async fn tree(&self) -> Vec<String> {
        let root = self.node("").await.expect("the root");
        let mut folders = vec![(root.id, String::new())];
        let mut paths = Vec::new();
        while let Some((folder, above)) = folders.pop() {
            for node in self.catalogue.children(folder, None, usize::MAX).await.expect("reads") {
                let full = format!("{above}{}", node.name);
                if node.kind == NodeKind::Folder {
                    paths.push(format!("{full}/"));
                    folders.push((node.id, format!("{full}/")));
                } else {
                    paths.push(full);
                }
            }
        }
        paths.sort();
        paths
    }

    /// The space's usage.
    pub async fn usage(&self) -> Usage {
        self.catalogue.space(self.space).await.expect("reads").expect("the space").usage
    }

    /// Bytes used and old versions' part of them.
    pub async fn used(&self) -> (u64, u64) {
        let usage = self.usage().await;
        (usage.used_bytes, usage.version_bytes)
    }

    /// Sets the space's quota.
    pub async fn set_quota(&self, quota: Option<u64>) {
        let change = SpaceChange { quota_bytes: Some(quota), ..SpaceChange::default() };
        self.catalogue.change_space(self.space, change).await.expect("changes");
    }

    /// Sets the space's retention.
    pub async fn set_retention(&self, days: u32, versions_max: Option<u32>, bytes_max: Option<u64>) {
        let retention = Some(Retention { days, versions_max, bytes_max, thin: false });
        let change = SpaceChange { retention, ..SpaceChange::default() };
        self.catalogue.change_space(self.space, change).await.expect("changes");
    }

    /// Lets old versions thin out, or not; they are kept for long.
    pub async fn set_thin(&self, thin: bool) {
        let retention = Some(Retention { days: 1_000, thin, ..Retention::default() });
        let change = SpaceChange { retention, ..SpaceChange::default() };
        self.catalogue.change_space(self.space, change).await.expect("changes");
    }

    /// A lock to be taken.
    pub fn new_lock(&self, token: &str, exclusive: bool, deep: bool) -> NewLock {
        NewLock { token: token.to_owned(), exclusive, deep, owner_xml: "<owner/>".to_owned(), expires_ms: 100_000 }
    }

    /// Indexes everything that waits.
    pub async fn index_all(&self) {
        while self.catalogue.index_words().await.expect("indexes") {}
    }

    /// Looks for words in the space, thoroughly.
    pub async fn search(&self, text: &str) -> SearchAnswer {
        let query = SearchQuery { text: text.to_owned(), limit: HITS_MAX, whole: true, ..SearchQuery::default() };
        self.find_all(&query).await
    }

    /// The same, page after page, as somebody sees it who does not wait for a thorough look: paths of each page.
    pub async fn search_pages(&self, text: &str, limit: usize) -> Vec<Vec<String>> {
        let mut query = SearchQuery { text: text.to_owned(), limit, ..SearchQuery::default() };
        let mut pages = Vec::new();
        loop {
            let answer = self.find_all(&query).await;
            pages.push(answer.hits.iter().map(|hit| hit.path.to_string()).collect());
            assert!(answer.next.is_none() || answer.more);
            query.after = answer.next;
            if query.after.is_none() {
                return pages;
            }
        }
    }

    /// Looks for something in the space.
    pub async fn find_all(&self, query: &SearchQuery) -> SearchAnswer {
        self.catalogue.search(&[self.space.into()], query).await.expect("finds")
    }

    /// Where words were found, in the order of the answer.
    pub async fn search_paths(&self, text: &str) -> Vec<String> {
        self.search(text).await.hits.iter().map(|hit| hit.path.to_string()).collect()
    }

    /// Adds and removes tags of one node.
    pub async fn tag(&self, at: &str, add: &[&str], remove: &[&str]) -> Result<Node> {
        let tags = |texts: &[&str]| texts.iter().map(|text| Tag::new(text).expect("a good tag")).collect();
        let change = TagChange { add: tags(add), remove: tags(remove) };
        let mut answers = self.catalogue.change_tags(self.space, &[path(at)], &change, &self.guard()).await?;
        answers.remove(0)
    }

    /// Opens a pack.
    pub async fn pack(&self, name: u8) -> PackId {
        self.catalogue.open_pack(PackName([name; 16]), THIS, 1).await.expect("a new pack")
    }

    /// Releases garbage until there is none; answers how many rows went.
    pub async fn release_all(&self) -> usize {
        let mut all = 0;
        loop {
            match self.catalogue.release_garbage(7).await.expect("releases") {
                0 => return all,
                some => all += some,
            }
        }
    }
}

/// A guard of an account.
pub fn guard_of(account: AccountId, now_ms: i64) -> Guard {
    Guard { account, expect: Expect::Any, tokens: Vec::new(), through: Vec::new(), now_ms, mount: 0 }
}

/// A slot of a kind.
pub fn slot(kind: SlotKind, lookup: &str) -> NewSlot {
    NewSlot {
        kind,
        lookup: lookup.to_owned(),
        label: "a label".to_owned(),
        read_only: false,
        space: None,
        sealed: vec![1, 2, 3],
        expires_ms: None,
    }
}

/// Inline content of so many bytes.
pub fn inline(size: u64) -> NewContent {
    if size == 0 {
        return NewContent::Empty;
    }
    NewContent::Inline { size, nonce: [1; 16], tag: [2; 16], sealed: vec![3; 40] }
}

/// A block's id.
pub const fn block(name: u8) -> BlockId {
    BlockId([name; 32])
}

/// A block that was just written to a pack, at an offset made of its name.
pub fn written(name: u8, pack: PackId) -> StagedBlock {
    let place = Place { pack, offset: u64::from(name) * 2_000, sealed_bytes: BLOCK + 16, raw_bytes: BLOCK };
    StagedBlock { id: block(name), written: Some(place) }
}

/// A block that is claimed to exist.
pub const fn claimed(name: u8) -> StagedBlock {
    StagedBlock { id: block(name), written: None }
}

/// A run in the first chunk.
pub const fn run(first: usize, blocks: Vec<StagedBlock>) -> StagedRun {
    StagedRun { chunk: 0, first, blocks, tag: [4; 16] }
}

/// Content of blocks, each of [`BLOCK`] bytes.
pub fn blocks(staged: Vec<StagedBlock>) -> NewContent {
    let size = staged.len() as u64 * u64::from(BLOCK);
    NewContent::Blocks { size, block_bytes: BLOCK, nonce: [1; 16], tag: [2; 16], runs: vec![run(0, staged)] }
}
