//! Numbers with meanings: how reasons, statuses and kinds are written down.

/// A type for a field whose values the specification lists: its constants, and their meanings in
/// words. A number that is not listed is kept, for the peer may be of a newer release.
macro_rules! codes {
    (
        $(#[$about:meta])*
        pub struct $name:ident($number:ty);
        $($code:ident = $value:literal, $words:literal;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $number);

        impl $name {
            $(
                #[doc = concat!($words, ".")]
                pub const $code: Self = Self($value);
            )*

            /// What the number means; `None` if the specification does not say.
            pub const fn in_words(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($words),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.in_words() {
                    Some(words) => formatter.write_str(words),
                    None => write!(formatter, "unknown code {}", self.0),
                }
            }
        }
    };
}

pub(super) use codes;
