//! The key encodings under random input: what is sealed opens, and nothing else does, nor panics.

use holdfast_base::Uid;
use holdfast_seal::keys::{
    Argon2Params, CredentialKind, SlotContext, open_escrow_slot, open_slot, seal_escrow_slot, seal_slot, wrap_space_key,
};
use holdfast_seal::{AccountKey, SpaceKey};
use proptest::prelude::*;

const CHEAP: Argon2Params = Argon2Params { memory_kib: 8, passes: 1, lanes: 1 };

fn kind() -> impl Strategy<Value = CredentialKind> {
    prop::sample::select(vec![CredentialKind::Password, CredentialKind::Token, CredentialKind::Recovery])
}

fn key() -> impl Strategy<Value = AccountKey> {
    any::<[u8; 32]>().prop_map(|private| AccountKey::from_private(&private).expect("any 32 bytes are a key"))
}

proptest! {
    #[test]
    fn slots_round_trip(kind in kind(), key in key(), uid: [u8; 16], lookup in ".{0,20}", secret: Vec<u8>) {
        let context = SlotContext { kind, account: Uid(uid), lookup: &lookup };
        let slot = seal_slot(context, &secret, &key, CHEAP).expect("seals");
        let opened = open_slot(context, &secret, &slot).expect("opens");
        prop_assert_eq!(opened.expose(), key.expose());
        prop_assert_eq!(opened.public(), key.public());
        let mut other = secret;
        other.push(0);
        prop_assert!(open_slot(context, &other, &slot).is_err());
    }

    #[test]
    fn wrapped_keys_and_escrow_slots_round_trip(key in key(), escrow in key(), space: [u8; 32], uid: [u8; 16]) {
        let uid = Uid(uid);
        let wrapped = wrap_space_key(&key.public(), uid, &SpaceKey::from_bytes(space)).expect("wraps");
        let unwrapped = key.unwrap_space_key(uid, &wrapped).expect("opens");
        prop_assert_eq!(unwrapped.expose(), &space);
        let slot = seal_escrow_slot(&escrow.public(), uid, &key).expect("seals");
        let opened = open_escrow_slot(&escrow, uid, &slot).expect("opens");
        prop_assert_eq!(opened.expose(), key.expose());
        prop_assert!(open_escrow_slot(&key, uid, &slot).is_err());
    }

    #[test]
    fn changed_slots_are_refused(kind in kind(), key in key(), at: prop::sample::Index, by in 1..=255u8) {
        let context = SlotContext { kind, account: Uid([1; 16]), lookup: "" };
        let mut slot = seal_slot(context, b"secret", &key, CHEAP).expect("seals");
        let at = at.index(slot.len());
        slot[at] ^= by;
        prop_assert!(open_slot(context, b"secret", &slot).is_err());
    }

    #[test]
    fn any_bytes_are_refused_without_panic(kind in kind(), key in key(), head in 0..5u8, bytes: Vec<u8>) {
        // One of each pair begins like a slot, so that the parser gets further.
        let framed = [&[1, head][..], &bytes].concat();
        let context = SlotContext { kind, account: Uid([1; 16]), lookup: "" };
        for input in [&bytes, &framed] {
            prop_assert!(open_slot(context, b"secret", input).is_err());
            prop_assert!(open_escrow_slot(&key, Uid([1; 16]), input).is_err());
            prop_assert!(key.unwrap_space_key(Uid([1; 16]), input).is_err());
        }
    }
}
