//! The addresses of entries of debug information.

/// The addresses of an entry. An entry that would end behind all addresses has none: the sum is not checked where they are read.
pub(crate) fn ranges_of<R: gimli::Reader>(
    dwarf: &gimli::Dwarf<R>,
    unit: &gimli::Unit<R>,
    entry: &gimli::DebuggingInformationEntry<'_, '_, R>,
) -> gimli::Result<gimli::RangeIter<R>> {
    let (mut begin, mut size) = (0, 0);
    let mut attributes = entry.attrs();
    while let Some(attribute) = attributes.next()? {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => begin = dwarf.attr_address(unit, value)?.unwrap_or(0),
            (gimli::DW_AT_high_pc, gimli::AttributeValue::Udata(bytes)) => size = bytes,
            _ => {}
        }
    }
    match begin.checked_add(size) {
        Some(_) => dwarf.die_ranges(unit, entry),
        None => Err(gimli::Error::InvalidAddressRange),
    }
}
