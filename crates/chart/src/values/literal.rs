//! Parser of `--set-literal`: no escapes, and everything after the `=` is the value.

use steersman_gotemplate::Str;

use super::go_list::{
    Result, Stop, in_item_list, in_item_table, in_list, in_table, index, place, set, set_index,
};
use super::{Data, Table};
use crate::gofmt;

/// Parses an expression into `table`.
pub(super) fn parse(expression: &str, table: &mut Table) -> std::result::Result<(), String> {
    let mut parser = Parser { rest: expression };
    loop {
        match parser.key(table, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Error(message)) => return Err(message),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn key(&mut self, table: &mut Table, level: usize) -> Result<()> {
        let (key, stop) = self.until(&['=', '[', '.']);
        match stop {
            None if key.is_empty() => Err(Stop::End),
            None => Err(format!("key {} has no value", gofmt::quote(&Str::from(key))).into()),
            Some('=') => {
                let value = self.value();
                set(table, key, value);
                Ok(())
            }
            Some('[') => {
                let index = self.index()?;
                in_list(table, key, |list| self.item(list, index, level, 0))
            }
            Some(_) => in_table(table, key, level, |inner, level| self.key(inner, level)),
        }
    }

    fn item(&mut self, list: &mut Vec<Data>, i: i64, level: usize, lists: usize) -> Result<()> {
        let i = place(i)?;
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            let runes: Vec<String> = text.chars().map(gofmt::quote_rune).collect();
            return Err(format!("unexpected data at end of array index: [{}]", runes.join(" ")).into());
        }
        match stop {
            None => Err(Stop::End),
            Some('=') => {
                let value = self.value();
                set_index(list, i, value)
            }
            Some('[') => {
                let next = self.index()?;
                in_item_list(list, i, lists, |inner, lists| self.item(inner, next, level, lists))
            }
            Some(_) => in_item_table(list, i, |inner| self.key(inner, level)),
        }
    }

    fn value(&mut self) -> Data {
        Data::from(std::mem::take(&mut self.rest))
    }

    fn index(&mut self) -> Result<i64> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err("error parsing index: EOF".into());
        }
        index(text)
    }

    fn until(&mut self, stops: &[char]) -> (&'a str, Option<char>) {
        match self.rest.split_once(stops) {
            Some((text, rest)) => {
                let stop = self.rest[text.len()..].chars().next();
                self.rest = rest;
                (text, stop)
            }
            None => (std::mem::take(&mut self.rest), None),
        }
    }
}
