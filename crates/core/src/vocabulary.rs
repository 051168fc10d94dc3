//! Names in the public interface, such as annotations and condition reasons, each with its meaning.

/// A name in the public interface, and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The name as used in the cluster.
    pub name: &'static str,
    /// Its meaning, in Markdown.
    pub description: &'static str,
}

/// Declares constants, and the table of them from which the reference documentation is generated.
///
/// The doc comment of each constant is also its description, so that neither is written twice.
/// ```
/// steersman_core::vocabulary! {
///     /// Annotations of a shop.
///     pub const ANNOTATIONS = {
///         /// Closes the shop
///         /// while it is `true`.
///         pub const CLOSED = "example.com/closed";
///     };
/// }
///
/// assert_eq!(ANNOTATIONS[0].name, CLOSED);
/// assert_eq!(ANNOTATIONS[0].description, "Closes the shop while it is `true`.");
/// ```
#[macro_export]
macro_rules! vocabulary {
    ($(
        $(#[doc = $about:literal])+
        $table_visibility:vis const $table:ident = {
            $($(#[doc = $doc:literal])+ $visibility:vis const $name:ident = $value:literal;)+
        };
    )+) => {$(
        $($(#[doc = $doc])+ $visibility const $name: &str = $value;)+
        $(#[doc = $about])+
        $table_visibility const $table: &[$crate::vocabulary::Term] = &[$(
            $crate::vocabulary::Term { name: $name, description: concat!($($doc),+).trim_ascii() },
        )+];
    )+};
}
