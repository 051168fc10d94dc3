//! Parallel processing of many strings, if there is enough work.

use std::num::NonZero;
use std::panic;
use std::thread;

/// Bytes of text that justify another thread.
const GRAIN: usize = 24 << 10;
/// Maximum number of threads; more gain little for the size of a chart.
const MAX_THREADS: usize = 4;

/// Maps each item with `work`, in order, using several threads if there is enough work.
///
/// `size` returns the size of an item in bytes of text.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    size: impl Fn(&T) -> usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let total: usize = items.iter().map(&size).sum();
    let wanted = (total / GRAIN).min(MAX_THREADS);
    // Querying the number of processors costs as much as a small chart, so this is only done for large ones.
    let threads =
        if wanted < 2 { 1 } else { wanted.min(thread::available_parallelism().map_or(1, NonZero::get)) };
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let mut shares = Vec::new();
    let mut rest = items;
    for _ in 1..threads {
        let mut taken = 0;
        let enough = |item: &T| {
            taken += size(item);
            taken >= total / threads
        };
        let (share, others) = rest.split_at(rest.iter().position(enough).map_or(rest.len(), |at| at + 1));
        shares.push(share);
        rest = others;
    }
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let last: Vec<R> = rest.iter().map(work).collect();
        let mut done = Vec::with_capacity(items.len());
        for share in started {
            done.extend(share.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        }
        done.extend(last);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn order_stays() {
        let items: Vec<usize> = (0..1000).map(|n| n * 7 % 1000).collect();
        let doubled: Vec<usize> = items.iter().map(|n| n * 2).collect();
        assert_eq!(map(&items, |_| 1000, |n| n * 2), doubled);
        assert_eq!(map(&items, |n| *n, |n| n * 2), doubled);
        assert_eq!(map(&[1, 2], |_| 1 << 20, |n| n + 1), [2, 3]);
        assert!(map(&[] as &[i32], |_| 1, |n| n + 1).is_empty());
    }
}
