//! Assigns objects to slots, and slots to replicas. Pure, and the same in every version of this crate: replicas of two
//! versions must agree during an update.

use std::collections::BTreeMap;

/// Returns the slot of a name.
pub(super) fn slot(name: &str, slots: usize) -> usize {
    let place = mix(hash(name)) % (slots.max(1) as u64);
    usize::try_from(place).unwrap_or_default()
}

/// Assigns each slot to the replica with the highest affinity among those whose share is not full.
///
/// When a replica joins or leaves, little more than its share moves. Without members no slot is assigned.
pub(super) fn assign<'a>(members: &[&'a str], slots: usize) -> Vec<Option<&'a str>> {
    let share = slots.div_ceil(members.len().max(1));
    let mut load: BTreeMap<&str, usize> = BTreeMap::new();
    let mut assigned = Vec::with_capacity(slots);
    for slot in 0..slots {
        let free = members.iter().filter(|member| load.get(**member).copied().unwrap_or_default() < share);
        let best = free.max_by_key(|member| (affinity(slot, member), **member)).copied();
        if let Some(member) = best {
            *load.entry(member).or_default() += 1;
        }
        assigned.push(best);
    }
    assigned
}

/// Affinity of a slot to a replica.
fn affinity(slot: usize, member: &str) -> u64 {
    mix(hash(member) ^ mix(slot as u64 + 1))
}

/// FNV-1a. The standard library's hashers may change from release to release.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Spreads nearby numbers: the finalizer of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_always_fall_into_the_same_slots_and_slots_to_the_same_replicas() {
        // Fixed values: other ones would let two versions of an operator work on one object.
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
        let slots = ["lab/one", "lab/two", "three"].map(|name| slot(name, 16));
        assert_eq!(slots, [13, 14, 14]);
        let letters: String = assign(&["a", "b", "c"], 16).into_iter().flatten().collect();
        assert_eq!(letters, "cbaacccabbacabac");
    }

    #[test]
    fn names_spread_over_the_slots() {
        let mut counts = [0_usize; 16];
        for number in 0..16_000 {
            counts[slot(&format!("lab/object-{number}"), 16)] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn few_slots_move_when_a_replica_goes() {
        // How many slots move depends on the names: a full share pushes some on to their second choice. So the names are
        // fixed, and the mean must be small.
        let (mut moved, mut lost) = (0, 0);
        for group in 0..200 {
            let names: Vec<String> =
                (0..2 + group % 7).map(|pod| format!("operator-{group}-{pod}")).collect();
            let members: Vec<&str> = names.iter().map(String::as_str).collect();
            let (gone, rest) = members.split_first().unwrap();
            let (before, after) = (assign(&members, 64), assign(rest, 64));
            moved += before.iter().zip(&after).filter(|(before, after)| before != after).count();
            lost += before.iter().filter(|held| **held == Some(gone)).count();
        }
        assert!(moved >= lost && moved * 2 <= lost * 3, "{moved} moved when {lost} were lost");
    }

    proptest! {
        #[test]
        fn shares_are_even_whatever_the_order(
            names in prop::collection::btree_set("[a-z]{1,12}", 1..9),
            slots in 1_usize..64,
        ) {
            let members: Vec<&str> = names.iter().map(String::as_str).collect();
            let before = assign(&members, slots);
            let share = slots.div_ceil(members.len());
            for member in &members {
                prop_assert!(before.iter().filter(|held| **held == Some(member)).count() <= share);
            }
            prop_assert!(before.iter().all(Option::is_some));
            // The order in which replicas are seen does not matter.
            let reversed: Vec<&str> = members.iter().rev().copied().collect();
            prop_assert_eq!(&assign(&reversed, slots), &before);
        }
    }
}
