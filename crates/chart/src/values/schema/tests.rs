//! Tests of schemas, by what Helm prints.
