//! One definition of a structure gives the Rust type and the list that the layout test checks.

/// Where the fields of a structure are: name, offset and size in bytes.
#[cfg(test)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) fields: Vec<(&'static str, usize, usize)>,
}

/// Defines `#[repr(C)]` structures with public fields, and a list of their layouts for the tests.
macro_rules! c_structs {
    ($(
        $(#[$meta:meta])*
        struct $name:ident { $( $(#[$field_meta:meta])* $field:ident : $type:ty, )* }
    )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[allow(non_camel_case_types, non_snake_case)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name { $( $(#[$field_meta])* pub(crate) $field: $type, )* }
        )*

        #[cfg(test)]
        pub(crate) fn layouts() -> Vec<crate::layout::definition::Layout> {
            vec![$(
                crate::layout::definition::Layout {
                    name: stringify!($name),
                    size: size_of::<$name>(),
                    fields: vec![$((
                        stringify!($field),
                        core::mem::offset_of!($name, $field),
                        size_of::<$type>(),
                    )),*],
                }
            ),*]
        }
    };
}
