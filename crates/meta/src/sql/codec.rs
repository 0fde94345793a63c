//! Rows to values and back. Every enum's number or text here is part of the file format.

use super::fault::{Done, Fault};
use super::seam::{Row, damaged};
use crate::types::{
    Account, BlockPlace, Compression, Content, Membership, Node, NodeKind, Pack, PackState, Place, Role, Slot,
    SlotKind, Version,
};
use holdfast_base::{AccountId, BlockId, ContentId, NodeId, PackId, PackName, SpaceId, Uid};

type Read<T> = Done<T>;

/// Columns of [`node`], each with what is put before it.
macro_rules! node_columns {
    () => {
        node_columns!("")
    };
    ($of:literal) => {
        concat!(
            $of,
            "id, ",
            $of,
            "space_id, ",
            $of,
            "parent_id, ",
            $of,
            "name, ",
            $of,
            "kind, ",
            $of,
            "content_id, ",
            $of,
            "size, ",
            $of,
            "seq, ",
            $of,
            "created_ms, ",
            $of,
            "modified_ms, ",
            $of,
            "has_properties"
        )
    };
}
pub(super) use node_columns;

/// Columns of [`account`], qualified by `account`.
macro_rules! account_columns {
    () => {
        "account.id, account.uid, account.name, account.admin, account.disabled, account.public_key, \
         account.quota_bytes, account.generation, account.created_ms"
    };
}
pub(super) use account_columns;

/// Columns of [`slot`], qualified by `slot`.
macro_rules! slot_columns {
    () => {
        "slot.id, slot.account_id, slot.kind, slot.lookup, slot.label, slot.read_only, slot.space_id, slot.sealed, \
         slot.created_ms, slot.used_ms, slot.expires_ms"
    };
}
pub(super) use slot_columns;

/// How many [`node_columns`] there are.
pub(super) const NODE_COLUMNS: usize = 11;

/// Columns of [`content`], qualified by `content`.
macro_rules! content_columns {
    () => {
        "content.id, content.space_id, content.size, content.block_bytes, content.blocks, content.nonce, content.tag, \
         content.inline"
    };
}
pub(super) use content_columns;

/// Columns of [`pack`].
macro_rules! pack_columns {
    () => {
        "id, name, state, total_bytes, live_bytes, created_ms"
    };
}
pub(super) use pack_columns;

/// Columns of [`block_place`], from `block JOIN pack`.
macro_rules! block_columns {
    () => {
        "block.id, pack.name, block.pack_id, block.\"offset\", block.sealed_bytes, block.raw_bytes"
    };
}
pub(super) use block_columns;

/// A node from [`node_columns`].
pub(super) fn node(row: &Row<'_>) -> Read<Node> {
    let parent: i64 = row.get(2)?;
    Ok(Node {
        id: NodeId(row.get(0)?),
        space: SpaceId(row.get(1)?),
        parent: (parent > 0).then_some(NodeId(parent)),
        name: if parent == 0 { String::new() } else { row.get(3)? },
        kind: node_kind(row, 4)?,
        content: row.get::<Option<i64>>(5)?.map(ContentId),
        size: row.get(6)?,
        seq: row.get(7)?,
        created_ms: row.get(8)?,
        modified_ms: row.get(9)?,
        has_properties: row.get(10)?,
    })
}

/// 0 is a folder, 1 a file.
pub(super) fn node_kind(row: &Row<'_>, column: usize) -> Read<NodeKind> {
    match row.get::<i64>(column)? {
        0 => Ok(NodeKind::Folder),
        1 => Ok(NodeKind::File),
        other => Err(bad_number(column, other)),
    }
}

/// See [`node_kind`].
pub(super) const fn node_kind_number(kind: NodeKind) -> i64 {
    match kind {
        NodeKind::Folder => 0,
        NodeKind::File => 1,
    }
}

/// An account from [`account_columns`], the first of which is column `at`.
pub(super) fn account(row: &Row<'_>, at: usize) -> Read<Account> {
    Ok(Account {
        id: AccountId(row.get(at)?),
        uid: Uid(row.get(at + 1)?),
        name: row.get(at + 2)?,
        admin: row.get(at + 3)?,
        disabled: row.get(at + 4)?,
        public_key: row.get(at + 5)?,
        quota_bytes: row.get(at + 6)?,
        generation: row.get(at + 7)?,
        created_ms: row.get(at + 8)?,
    })
}

/// A slot from [`slot_columns`], the first of which is column `at`.
pub(super) fn slot(row: &Row<'_>, at: usize) -> Read<Slot> {
    Ok(Slot {
        id: row.get(at)?,
        account: AccountId(row.get(at + 1)?),
        kind: match row.get::<i64>(at + 2)? {
            0 => SlotKind::Password,
            1 => SlotKind::Token,
            2 => SlotKind::Recovery,
            3 => SlotKind::Escrow,
            4 => SlotKind::Session,
            other => return Err(bad_number(at + 2, other)),
        },
        lookup: row.get(at + 3)?,
        label: row.get(at + 4)?,
        read_only: row.get(at + 5)?,
        space: row.get::<Option<i64>>(at + 6)?.map(SpaceId),
        sealed: row.get(at + 7)?,
        created_ms: row.get(at + 8)?,
        used_ms: row.get(at + 9)?,
        expires_ms: row.get(at + 10)?,
    })
}

/// See [`slot`].
pub(super) const fn slot_kind_number(kind: SlotKind) -> i64 {
    match kind {
        SlotKind::Password => 0,
        SlotKind::Token => 1,
        SlotKind::Recovery => 2,
        SlotKind::Escrow => 3,
        SlotKind::Session => 4,
    }
}

/// A membership from `space_id, account_id, account.name, role, wrapped_key`, the first of which is column `at`.
pub(super) fn membership(row: &Row<'_>, at: usize) -> Read<Membership> {
    Ok(Membership {
        space: SpaceId(row.get(at)?),
        account: AccountId(row.get(at + 1)?),
        account_name: row.get(at + 2)?,
        role: role(row, at + 3)?,
        wrapped_key: row.get(at + 4)?,
    })
}

/// A role from column `at`.
pub(super) fn role(row: &Row<'_>, at: usize) -> Read<Role> {
    match row.get::<i64>(at)? {
        0 => Ok(Role::Reader),
        1 => Ok(Role::Editor),
        2 => Ok(Role::Owner),
        other => Err(bad_number(at, other)),
    }
}

/// See [`membership`].
pub(super) const fn role_number(role: Role) -> i64 {
    match role {
        Role::Reader => 0,
        Role::Editor => 1,
        Role::Owner => 2,
    }
}

/// A compression from its text.
pub(super) fn compression(row: &Row<'_>, column: usize) -> Read<Compression> {
    let text: String = row.get(column)?;
    let level = |level: &str| level.parse().ok().map(Compression::Zstd);
    match text.as_str() {
        "none" => Some(Compression::None),
        "lz4" => Some(Compression::Lz4),
        zstd => zstd.strip_prefix("zstd:").and_then(level),
    }
    .ok_or_else(|| damaged(format!("column {column}: {text:?} is no compression")).into())
}

/// See [`compression`].
pub(super) fn compression_text(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_owned(),
        Compression::Lz4 => "lz4".to_owned(),
        Compression::Zstd(level) => format!("zstd:{level}"),
    }
}

/// A content from [`content_columns`], the first of which is column `at`.
pub(super) fn content(row: &Row<'_>, at: usize) -> Read<Content> {
    Ok(Content {
        id: ContentId(row.get(at)?),
        space: SpaceId(row.get(at + 1)?),
        size: row.get(at + 2)?,
        block_bytes: row.get(at + 3)?,
        blocks: row.get(at + 4)?,
        nonce: row.get(at + 5)?,
        tag: row.get(at + 6)?,
        inline: row.get(at + 7)?,
    })
}

/// A version from `seq, content_id, size, modified_ms, superseded_ms, by_id`.
pub(super) fn version(row: &Row<'_>) -> Read<Version> {
    Ok(Version {
        seq: row.get(0)?,
        content: row.get::<Option<i64>>(1)?.map(ContentId),
        size: row.get(2)?,
        modified_ms: row.get(3)?,
        superseded_ms: row.get(4)?,
        by: AccountId(row.get(5)?),
    })
}

/// A pack from [`pack_columns`].
pub(super) fn pack(row: &Row<'_>) -> Read<Pack> {
    Ok(Pack {
        id: PackId(row.get(0)?),
        name: PackName(row.get(1)?),
        state: match row.get::<i64>(2)? {
            0 => PackState::Open,
            1 => PackState::Sealed,
            2 => PackState::Dead,
            other => return Err(bad_number(2, other)),
        },
        total_bytes: row.get(3)?,
        live_bytes: row.get(4)?,
        created_ms: row.get(5)?,
    })
}

/// A block's place from [`block_columns`], the first of which is column `at`.
pub(super) fn block_place(row: &Row<'_>, at: usize) -> Read<BlockPlace> {
    Ok(BlockPlace {
        id: BlockId(row.get(at)?),
        pack_name: PackName(row.get(at + 1)?),
        place: Place {
            pack: PackId(row.get(at + 2)?),
            offset: row.get(at + 3)?,
            sealed_bytes: row.get(at + 4)?,
            raw_bytes: row.get(at + 5)?,
        },
    })
}

/// A size as the database keeps it. What is larger than the database can say is larger than any disk, too.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A sum that a constraint keeps from being negative.
pub(super) fn unsigned(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

/// A limit on rows as the database takes it.
pub(crate) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn bad_number(column: usize, number: i64) -> Fault {
    damaged(format!("column {column} says {number}, which means nothing")).into()
}
