//! Recordings made by hand, from the layouts that the reader reads them with.

#![allow(dead_code, reason = "not every test uses all")]

use perfuse_abi::record::{Comm, Decoded, Misc, Record, RecordFormat, Sample, SampleId, Tid};
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType, WireAttr};
use perfuse_data::feature::{FeatureId, Section};
use perfuse_data::tool::{HeaderAttr, Tool, ToolRecord};
use perfuse_data::{AttrBytes, FileHeader, FileSection};

/// An attr whose records have id, address, thread, time and period.
pub(crate) fn attr() -> Attr {
    Attr {
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::PERIOD,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::new(EventType::SOFTWARE)
    }
}

pub(crate) struct Build {
    pub(crate) order: ByteOrder,
    pub(crate) attrs: Vec<(Attr, Vec<u64>)>,
    pub(crate) records: Vec<u8>,
    pub(crate) sections: Vec<(FeatureId, Vec<u8>)>,
}

impl Build {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Build { order, attrs: Vec::new(), records: Vec::new(), sections: Vec::new() }
    }

    pub(crate) fn event(mut self, attr: Attr, ids: &[u64]) -> Self {
        self.attrs.push((attr, ids.to_vec()));
        self
    }

    pub(crate) fn format(&self, event: usize) -> RecordFormat {
        RecordFormat::of(&self.attrs[event].0, self.order)
    }

    pub(crate) fn kernel(mut self, event: usize, record: impl Into<Decoded<'static>>) -> Self {
        record.into().encode(&self.format(event), &mut self.records).unwrap();
        self
    }

    /// A sample of an event; everything that the attr asks for is there.
    pub(crate) fn sample(self, event: usize, id: u64, ip: u64, time: u64) -> Self {
        let tid = Tid { pid: 10, tid: 11 };
        let mut sample = Sample::default();
        sample.identifier = Some(id);
        sample.ip = Some(ip);
        sample.tid = Some(tid);
        sample.time = Some(time);
        sample.id = Some(id);
        sample.period = Some(5);
        sample.cpu = Some(1.into());
        sample.addr = Some(0);
        self.kernel(event, Record::Sample(sample))
    }

    pub(crate) fn comm(self, event: usize, id: u64, name: &'static str, time: u64) -> Self {
        let tid = Tid { pid: 10, tid: 11 };
        let record = Decoded {
            misc: Misc::empty(),
            record: Record::Comm(Comm { tid, name: name.into() }),
            sample_id: SampleId {
                tid: Some(tid),
                time: Some(time),
                id: Some(id),
                identifier: Some(id),
                cpu: Some(1.into()),
                ..SampleId::default()
            },
            extra: &[],
        };
        self.kernel(event, record)
    }

    pub(crate) fn tool(mut self, tool: Tool<'_>) -> Self {
        ToolRecord::from(tool).encode(self.order, &mut self.records).unwrap();
        self
    }

    pub(crate) fn round(self) -> Self {
        self.tool(Tool::FinishedRound)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.records.extend_from_slice(bytes);
        self
    }

    pub(crate) fn section(mut self, id: FeatureId, section: impl Into<Section<'static>>) -> Self {
        let mut bytes = Vec::new();
        section.into().encode(self.order, &mut bytes).unwrap();
        self.sections.push((id, bytes));
        self
    }

    pub(crate) fn attr_bytes(&self, attr: &Attr) -> Vec<u8> {
        let mut bytes = Vec::new();
        WireAttr { attr: *attr, tail: &[] }.encode(self.order, &mut bytes).unwrap();
        bytes
    }

    fn put(&self, bytes: &mut Vec<u8>, mut value: impl for<'a> Layout<'a>) {
        value.layout(&mut Writer::new(bytes, self.order)).unwrap();
    }

    fn magic(&self, little: &[u8; 8]) -> [u8; 8] {
        self.order.bytes64(u64::from_le_bytes(*little))
    }

    /// The bytes for a pipe.
    pub(crate) fn pipe(&self) -> Vec<u8> {
        let mut bytes = self.magic(b"PERFILE2").to_vec();
        self.put(&mut bytes, 16u64);
        for (attr, ids) in &self.attrs {
            let attr = self.attr_bytes(attr);
            let tool = Tool::HeaderAttr(HeaderAttr { attr: AttrBytes(&attr), ids: ids[..].into() });
            ToolRecord::from(tool).encode(self.order, &mut bytes).unwrap();
        }
        for (id, section) in &self.sections {
            let tool = Tool::HeaderFeature { id: *id, bytes: section };
            ToolRecord::from(tool).encode(self.order, &mut bytes).unwrap();
        }
        bytes.extend(&self.records);
        bytes
    }

    /// The bytes of a file: as perf writes it, but that `slots` entries of the table of features are not
    /// used.
    pub(crate) fn file_with(&self, slots: usize) -> Vec<u8> {
        let sizes = self.attrs.iter().map(|(attr, _)| self.attr_bytes(attr).len());
        let attr_size = sizes.max().unwrap_or(144) as u64 + 16;
        let mut header = FileHeader { attr_size, ..FileHeader::default() };
        let mut body = Vec::new();
        let at = |body: &Vec<u8>| FileHeader::SIZE + body.len() as u64;
        let mut entries = Vec::new();
        for (attr, ids) in &self.attrs {
            let mut entry = self.attr_bytes(attr);
            entry.resize(attr_size as usize - 16, 0);
            self.put(&mut entry, FileSection { offset: at(&body), size: ids.len() as u64 * 8 });
            ids.iter().for_each(|&id| self.put(&mut body, id));
            entries.extend(entry);
        }
        header.attrs = FileSection { offset: at(&body), size: entries.len() as u64 };
        body.extend(entries);
        header.data = FileSection { offset: at(&body), size: self.records.len() as u64 };
        body.extend(&self.records);
        let mut sections: Vec<_> = self.sections.iter().collect();
        sections.sort_by_key(|(id, _)| *id);
        let mut offset = at(&body) + ((sections.len() + slots) * 16) as u64;
        for (id, section) in &sections {
            header.features.insert(*id);
            self.put(&mut body, FileSection { offset, size: section.len() as u64 });
            offset += section.len() as u64;
        }
        body.resize(body.len() + slots * 16, 0);
        sections.iter().for_each(|(_, section)| body.extend(section));
        self.with_header(&header, &body)
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.file_with(2)
    }

    /// A file with this header in front of what follows it.
    pub(crate) fn with_header(&self, header: &FileHeader, body: &[u8]) -> Vec<u8> {
        let mut bytes = self.magic(b"PERFILE2").to_vec();
        self.put(&mut bytes, *header);
        bytes.extend(body);
        bytes
    }
}

/// A zstd stream of uncompressed blocks, one for each piece; never ended, as perf leaves it.
pub(crate) fn zstd(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut start = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x48];
    let mut block = |piece: &[u8]| {
        let mut bytes = std::mem::take(&mut start);
        bytes.extend_from_slice(&((piece.len() as u32) << 3).to_le_bytes()[..3]);
        bytes.extend_from_slice(piece);
        bytes
    };
    pieces.iter().map(|piece| block(piece)).collect()
}
