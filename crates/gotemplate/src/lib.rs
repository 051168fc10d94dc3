//! Go text/template and fmt, exactly.
