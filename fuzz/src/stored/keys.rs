//! Credential slots and wrapped keys from a catalogue that somebody else may have written.

use super::input::Input;
use holdfast_base::Uid;
use holdfast_seal::keys::{
    AccountKey, Argon2Params, CredentialKind, SlotContext, SpaceKey, open_escrow_slot, open_slot, seal_escrow_slot,
    seal_slot, wrap_space_key,
};

const ACCOUNT: Uid = Uid([1; 16]);
const SPACE: Uid = Uid([2; 16]);
const SECRET: &[u8] = b"correct horse battery staple";
/// The cheapest Argon2id there is: the cost is not what is tried here.
const CHEAP: Argon2Params = Argon2Params { memory_kib: 8, passes: 1, lanes: 1 };

/// The first byte chooses between any bytes at all and something sealed that is then changed.
pub fn keys(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 8 {
        0 => any_bytes(input.0),
        1 => edited(input, CredentialKind::Password),
        2 => edited(input, CredentialKind::Recovery),
        3 => edited_escrow(input),
        4 => edited_space_key(input),
        _ => edited(input, CredentialKind::Token),
    }
}

fn any_bytes(bytes: &[u8]) {
    let key = account_key();
    assert!(key.unwrap_space_key(SPACE, bytes).is_err());
    assert!(open_escrow_slot(&key, ACCOUNT, bytes).is_err());
    for kind in [CredentialKind::Password, CredentialKind::Token, CredentialKind::Recovery, CredentialKind::Escrow] {
        if !is_costly(bytes) {
            assert!(open_slot(context(kind), SECRET, bytes).is_err());
        }
    }
}

fn edited(mut input: Input<'_>, kind: CredentialKind) {
    let slot = seal_slot(context(kind), SECRET, &account_key(), CHEAP).expect("seals");
    let changed = change(&mut input, &slot);
    if !is_costly(&changed) {
        let opened = open_slot(context(kind), SECRET, &changed);
        assert_eq!(opened.is_ok(), changed == slot);
        assert!(open_slot(context(kind), input.0, &slot).is_err() || input.0 == SECRET);
    }
}

fn edited_escrow(mut input: Input<'_>) {
    let escrow = AccountKey::from_private(&[8; 32]).expect("a key");
    let slot = seal_escrow_slot(&escrow.public(), ACCOUNT, &account_key()).expect("seals");
    // A change of the bit that X25519 itself ignores (RFC 7748 section 5) is noticed as well: HPKE binds the key's bytes.
    let changed = change(&mut input, &slot);
    assert_eq!(open_escrow_slot(&escrow, ACCOUNT, &changed).is_ok(), changed == slot);
    assert!(open_escrow_slot(&escrow, SPACE, &slot).is_err(), "a slot belongs to one account");
}

fn edited_space_key(mut input: Input<'_>) {
    let key = SpaceKey::from_bytes(input.array());
    let account = account_key();
    let wrapped = wrap_space_key(&account.public(), SPACE, &key).expect("wraps");
    let changed = change(&mut input, &wrapped);
    match account.unwrap_space_key(SPACE, &changed) {
        Ok(unwrapped) => {
            assert_eq!(changed, wrapped);
            assert_eq!(unwrapped.expose(), key.expose());
        }
        Err(_) => assert_ne!(changed, wrapped),
    }
}

fn change(input: &mut Input<'_>, bytes: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..input.byte() % 4 {
        let (kind, at, value) = (input.byte(), usize::from(input.byte()), input.byte());
        match changed.len() {
            0 => changed.push(value),
            len if kind % 4 < 2 => changed[at % len] ^= value,
            len if kind % 4 == 2 => changed.truncate(at % len),
            _ => changed.push(value),
        }
    }
    changed
}

/// Whether a slot asks for an Argon2id that is lawful and too slow to try here.
fn is_costly(slot: &[u8]) -> bool {
    let number = |at: usize| slot.get(at..at + 4).map(|n| u32::from_le_bytes([n[0], n[1], n[2], n[3]]));
    slot.get(1) == Some(&1)
        && number(2).is_some_and(|memory_kib| (1_024..=256 * 1_024).contains(&memory_kib))
        && number(6).is_some_and(|passes| passes <= 16)
}

fn context(kind: CredentialKind) -> SlotContext<'static> {
    SlotContext { kind, account: ACCOUNT, lookup: "lookup" }
}

fn account_key() -> AccountKey {
    AccountKey::from_private(&[7; 32]).expect("a key")
}
