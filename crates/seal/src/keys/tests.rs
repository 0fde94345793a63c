//! Tests of the key hierarchy. `vectors.txt` pins the encodings: it is never changed, only added to.

use super::slot::seal_slot_with;
use super::*;
use holdfast_base::ErrorKind;

/// As cheap as Argon2id gets: what is tested here is the encoding.
const CHEAP: Argon2Params = Argon2Params { memory_kib: 8, passes: 1, lanes: 1 };

const KINDS: [CredentialKind; 4] =
    [CredentialKind::Password, CredentialKind::Token, CredentialKind::Recovery, CredentialKind::Session];

fn context(kind: CredentialKind) -> SlotContext<'static> {
    SlotContext { kind, account: Uid([7; 16]), lookup: "look" }
}

fn fixed_key() -> AccountKey {
    AccountKey::from_private(&std::array::from_fn(|i| u8::try_from(i).expect("below 32"))).expect("key")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn vector(name: &str) -> Vec<u8> {
    let line = include_str!("vectors.txt").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    unhex(line.unwrap_or_else(|| panic!("no vector {name}")))
}

#[test]
fn slots_are_sealed_as_the_committed_vectors_say() {
    let (salt, nonce) = (std::array::from_fn(|_| 0xa5), [0x5a; 12]);
    for (kind, name) in KINDS.into_iter().zip(["slot-password", "slot-token", "slot-recovery", "slot-session"]) {
        let params = Argon2Params { memory_kib: 64, passes: 2, lanes: 1 };
        let slot = seal_slot_with(context(kind), b"secret", &fixed_key(), params, &salt, nonce).expect("seal");
        assert_eq!(hex(&slot), hex(&vector(name)), "{name}");
    }
    assert_eq!(hex(&fixed_key().public()), hex(&vector("account-public")));
}

#[test]
fn committed_vectors_open() {
    for (kind, name) in KINDS.into_iter().zip(["slot-password", "slot-token", "slot-recovery", "slot-session"]) {
        let key = open_slot(context(kind), b"secret", &vector(name)).expect("opens");
        assert_eq!(key.expose(), fixed_key().expose());
    }
    let escrow = AccountKey::from_private(&[9; 32]).expect("key");
    let key = open_escrow_slot(&escrow, Uid([7; 16]), &vector("slot-escrow")).expect("opens");
    assert_eq!(key.expose(), fixed_key().expose());
    let space = fixed_key().unwrap_space_key(Uid([3; 16]), &vector("wrapped-space-key")).expect("opens");
    assert_eq!(space.expose(), &[0x11; 32]);
}

#[test]
fn a_space_key_opens_only_for_its_account_and_space() {
    let (key, public) = AccountKey::generate().expect("generate");
    let (other, _) = AccountKey::generate().expect("generate");
    let (space, elsewhere) = (Uid([1; 16]), Uid([2; 16]));
    let secret = SpaceKey::generate().expect("generate");
    let wrapped = wrap_space_key(&public, space, &secret).expect("wrap");
    assert_eq!(wrapped.len(), wrap::WRAPPED_KEY_BYTES);
    assert_eq!(key.unwrap_space_key(space, &wrapped).expect("opens").expose(), secret.expose());
    for (who, place) in [(&other, space), (&key, elsewhere)] {
        let error = who.unwrap_space_key(place, &wrapped).expect_err("must not open");
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
}

#[test]
fn a_slot_opens_only_with_its_secret_account_kind_and_lookup() {
    let here = context(CredentialKind::Token);
    let slot = seal_slot(here, b"right", &fixed_key(), CHEAP).expect("seal");
    assert_eq!(open_slot(here, b"right", &slot).expect("opens").expose(), fixed_key().expose());
    let moved = [
        (SlotContext { account: Uid([8; 16]), ..here }, b"right".as_slice()),
        (SlotContext { kind: CredentialKind::Recovery, ..here }, b"right"),
        (SlotContext { lookup: "hook", ..here }, b"right"),
        (here, b"wrong"),
        (here, b""),
    ];
    for (place, secret) in moved {
        let error = open_slot(place, secret, &slot).expect_err("must not open");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{place:?}");
    }
}

#[test]
fn a_wrong_secret_looks_like_a_damaged_ciphertext() {
    let here = context(CredentialKind::Token);
    let slot = seal_slot(here, b"right", &fixed_key(), CHEAP).expect("seal");
    let mut damaged = slot.clone();
    *damaged.last_mut().expect("not empty") ^= 1;
    let (wrong, bad) = (open_slot(here, b"wrong", &slot), open_slot(here, b"right", &damaged));
    assert_eq!(format!("{:?}", wrong.expect_err("wrong")), format!("{:?}", bad.expect_err("bad")));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_refused() {
    let (escrow, public) = AccountKey::generate().expect("generate");
    let opens = |kind, bytes: &[u8]| match kind {
        None => fixed_key().unwrap_space_key(Uid([7; 16]), bytes).is_ok(),
        Some(CredentialKind::Escrow) => open_escrow_slot(&escrow, Uid([7; 16]), bytes).is_ok(),
        Some(kind) => open_slot(context(kind), b"secret", bytes).is_ok(),
    };
    let mut sealed: Vec<_> =
        KINDS.map(|kind| (Some(kind), seal_slot(context(kind), b"secret", &fixed_key(), CHEAP).expect("seal"))).into();
    let escrow_slot = seal_escrow_slot(&public, Uid([7; 16]), &fixed_key()).expect("seal");
    sealed.push((Some(CredentialKind::Escrow), escrow_slot));
    let wrapped = wrap_space_key(&fixed_key().public(), Uid([7; 16]), &SpaceKey::from_bytes([5; 32])).expect("wrap");
    sealed.push((None, wrapped));
    for (kind, whole) in sealed {
        assert!(opens(kind, &whole));
        for length in 0..whole.len() {
            assert!(!opens(kind, &whole[..length]), "{kind:?} cut to {length}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(!opens(kind, &longer), "{kind:?} with a byte more");
        for at in 0..whole.len() {
            // The costs are in front of the salt: a flipped high bit there must be refused before memory is asked for.
            let mut flipped = whole.clone();
            flipped[at] ^= 0x80;
            assert!(!opens(kind, &flipped), "{kind:?} flipped at {at}");
        }
    }
}

#[test]
fn a_slot_that_asks_for_unreasonable_costs_is_refused_before_any_work() {
    let here = context(CredentialKind::Password);
    let good = seal_slot(here, b"secret", &fixed_key(), CHEAP).expect("seal");
    let hostile = [(2, u32::MAX), (2, 64 * 1_024 * 1_024), (2, 0), (6, u32::MAX), (6, 0), (10, u32::MAX), (10, 0)];
    for (at, cost) in hostile {
        let mut slot = good.clone();
        slot[at..at + 4].copy_from_slice(&cost.to_le_bytes());
        assert_eq!(open_slot(here, b"secret", &slot).expect_err("refused").kind(), ErrorKind::Damaged, "{at} {cost}");
    }
    let greedy = Argon2Params { memory_kib: u32::MAX, ..CHEAP };
    assert!(seal_slot(here, b"secret", &fixed_key(), greedy).is_err());
}

#[test]
fn a_public_key_of_low_order_is_refused() {
    assert!(wrap_space_key(&[0; 32], Uid([1; 16]), &SpaceKey::from_bytes([5; 32])).is_err());
}

#[test]
fn keys_are_not_printed() {
    let shown = format!("{:?} {:?}", SpaceKey::from_bytes([0xcd; 32]), fixed_key());
    assert_eq!(shown, "SpaceKey(…) AccountKey(…)");
}

#[test]
#[ignore = "prints new random vectors, for when a format version is added"]
fn print_vectors() {
    let escrow = AccountKey::from_private(&[9; 32]).expect("key");
    let slot = seal_escrow_slot(&escrow.public(), Uid([7; 16]), &fixed_key()).expect("seal");
    let wrapped = wrap_space_key(&fixed_key().public(), Uid([3; 16]), &SpaceKey::from_bytes([0x11; 32])).expect("wrap");
    println!("account-public = {}", hex(&fixed_key().public()));
    for (kind, name) in KINDS.into_iter().zip(["slot-password", "slot-token", "slot-recovery", "slot-session"]) {
        let params = Argon2Params { memory_kib: 64, passes: 2, lanes: 1 };
        let slot = seal_slot_with(context(kind), b"secret", &fixed_key(), params, &[0xa5; 16], [0x5a; 12]);
        println!("{name} = {}", hex(&slot.expect("seal")));
    }
    println!("slot-escrow = {}\nwrapped-space-key = {}", hex(&slot), hex(&wrapped));
}
