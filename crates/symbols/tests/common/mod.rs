//! Makes small ELF and jitdump files, of either class and byte order.

/// An ELF file with one piece of code and the symbols for it.
#[derive(Clone, Debug)]
pub(crate) struct MadeElf {
    pub(crate) is_64: bool,
    pub(crate) big_endian: bool,
    pub(crate) machine: u16,
    /// `ET_EXEC` 2, `ET_DYN` 3, `ET_REL` 1.
    pub(crate) kind: u16,
    /// The address of the code, and where it is in the file: at or after 0x1000.
    pub(crate) code_address: u64,
    pub(crate) code_offset: u64,
    pub(crate) code_size: u64,
    /// Whether the symbols are a `.symtab` or a `.dynsym`.
    pub(crate) full: bool,
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) symbols: Vec<MadeSymbol>,
    /// The code takes room in the file.
    pub(crate) has_code: bool,
}

/// Name, address, size, type and binding as in `st_info`.
pub(crate) type MadeSymbol = (&'static str, u64, u64, u8);

pub(crate) const FUNC: u8 = 2;
pub(crate) const GLOBAL: u8 = 1 << 4;

impl Default for MadeElf {
    fn default() -> Self {
        MadeElf {
            is_64: true,
            big_endian: false,
            machine: 62,
            kind: 3,
            code_address: 0x2000,
            code_offset: 0x1000,
            code_size: 0x100,
            full: true,
            build_id: Some((1..=20).collect()),
            symbols: vec![
                ("first", 0x2000, 0x40, GLOBAL | FUNC),
                ("_ZN3foo3barEv", 0x2040, 0x40, FUNC),
                ("open", 0x20c0, 0, GLOBAL | FUNC),
            ],
            has_code: true,
        }
    }
}

impl MadeElf {
    fn half(&self, to: &mut Vec<u8>, value: u16) {
        to.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn word(&self, to: &mut Vec<u8>, value: u32) {
        to.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    /// A word of the class's size.
    fn native(&self, to: &mut Vec<u8>, value: u64) {
        match (self.is_64, self.big_endian) {
            (true, true) => to.extend(value.to_be_bytes()),
            (true, false) => to.extend(value.to_le_bytes()),
            (false, _) => self.word(to, value as u32),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut symbols = Vec::new();
        self.symbol(&mut symbols, 0, 0, 0, 0, 0);
        for &(name, address, size, info) in &self.symbols {
            let place = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            self.symbol(&mut symbols, place, address, size, info, 2);
        }
        let mut note = Vec::new();
        if let Some(id) = &self.build_id {
            self.word(&mut note, 4);
            self.word(&mut note, id.len() as u32);
            self.word(&mut note, 3);
            note.extend(b"GNU\0");
            note.extend(id);
        }

        let mut file = vec![0; 0x200];
        let note_offset = file.len() as u64;
        file.extend(&note);
        if self.has_code {
            file.resize((self.code_offset + self.code_size) as usize, 0xcc);
        }
        let symbols_offset = file.len() as u64;
        file.extend(&symbols);
        let strings_offset = file.len() as u64;
        file.extend(&strings);
        let names = b"\0.note.gnu.build-id\0.text\0.symtab\0.dynsym\0.strtab\0.shstrtab\0";
        let name = |name: &str| {
            let found = names.windows(name.len()).position(|at| at == name.as_bytes());
            found.expect("a name of a section") as u32
        };
        let names_offset = file.len() as u64;
        file.extend(names);
        file.resize(file.len().next_multiple_of(8), 0);

        let (table, entry) = if self.full { (2, ".symtab") } else { (11, ".dynsym") };
        let symbol_size = if self.is_64 { 24 } else { 16 };
        let (code_kind, code_address) =
            (if self.has_code { 1 } else { 8 }, if self.kind == 1 { 0 } else { self.code_address });
        let sections_offset = file.len() as u64;
        // name, type, flags, address, offset, size, link, info, align, entry size
        let sections = [
            [0; 10],
            [name(".note.gnu.build-id").into(), 7, 2, 0x200, note_offset, note.len() as u64, 0, 0, 4, 0],
            [name(".text").into(), code_kind, 6, code_address, self.code_offset, self.code_size, 0, 0, 16, 0],
            [name(entry).into(), table, 0, 0, symbols_offset, symbols.len() as u64, 4, 1, 8, symbol_size],
            [name(".strtab").into(), 3, 0, 0, strings_offset, strings.len() as u64, 0, 0, 1, 0],
            [name(".shstrtab").into(), 3, 0, 0, names_offset, names.len() as u64, 0, 0, 1, 0],
        ];
        for section in sections {
            let [name, kind, flags, address, offset, size, link, info, align, entry] = section;
            self.word(&mut file, name as u32);
            self.word(&mut file, kind as u32);
            [flags, address, offset, size].iter().for_each(|&value| self.native(&mut file, value));
            self.word(&mut file, link as u32);
            self.word(&mut file, info as u32);
            [align, entry].iter().for_each(|&value| self.native(&mut file, value));
        }

        let mut header =
            vec![0x7f, b'E', b'L', b'F', 1 + u8::from(self.is_64), 1 + u8::from(self.big_endian), 1];
        header.resize(16, 0);
        self.half(&mut header, self.kind);
        self.half(&mut header, self.machine);
        self.word(&mut header, 1);
        let (header_size, segment_size, section_size) = if self.is_64 { (64, 56, 64) } else { (52, 32, 40) };
        let loaded = self.kind != 1;
        let segments_offset = if loaded { u64::from(header_size) } else { 0 };
        for value in [self.code_address, segments_offset, sections_offset] {
            self.native(&mut header, value);
        }
        self.word(&mut header, 0);
        for value in [header_size, segment_size, if loaded { 3 } else { 0 }, section_size, 6, 5] {
            self.half(&mut header, value);
        }
        if loaded {
            let in_file = if self.has_code { self.code_size } else { 0 };
            let first = (self.code_address - self.code_offset.min(self.code_address)) & !0xfff;
            self.segment(&mut header, 1, 4, 0, first, 0x300);
            self.segment(&mut header, 1, 5, self.code_offset, self.code_address, in_file);
            self.segment(&mut header, 4, 4, note_offset, 0x200, note.len() as u64);
        }
        file[..header.len()].copy_from_slice(&header);
        file
    }

    fn symbol(&self, to: &mut Vec<u8>, name: u32, address: u64, size: u64, info: u8, section: u16) {
        self.word(to, name);
        if self.is_64 {
            to.extend([info, 0]);
            self.half(to, section);
        }
        self.native(to, address);
        self.native(to, size);
        if !self.is_64 {
            to.extend([info, 0]);
            self.half(to, section);
        }
    }

    fn segment(&self, to: &mut Vec<u8>, kind: u32, flags: u32, offset: u64, address: u64, size: u64) {
        self.word(to, kind);
        if self.is_64 {
            self.word(to, flags);
        }
        [offset, address, address, size, size].iter().for_each(|&value| self.native(to, value));
        if !self.is_64 {
            self.word(to, flags);
        }
        self.native(to, 0x1000);
    }
}

/// A jitdump file in the making.
pub(crate) struct MadeDump {
    pub(crate) bytes: Vec<u8>,
    big_endian: bool,
}

impl MadeDump {
    pub(crate) fn new(big_endian: bool) -> Self {
        let mut this = MadeDump { bytes: Vec::new(), big_endian };
        for word in [0x4a69_5444, 1, 40, 62, 0, 4711] {
            this.word(word);
        }
        this.long(1_000);
        this.long(0);
        this
    }

    fn word(&mut self, value: u32) {
        self.bytes.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn long(&mut self, value: u64) {
        self.bytes.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn record(&mut self, id: u32, time: u64, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.word(id);
        self.word(0);
        self.long(time);
        body(self);
        let size = (self.bytes.len() - start) as u32;
        let size = if self.big_endian { size.to_be_bytes() } else { size.to_le_bytes() };
        self.bytes[start + 4..start + 8].copy_from_slice(&size);
    }

    pub(crate) fn load(&mut self, time: u64, address: u64, index: u64, name: &str, code: &[u8]) {
        self.record(0, time, |this| {
            this.word(4711);
            this.word(4712);
            [address, address, code.len() as u64, index].iter().for_each(|&value| this.long(value));
            this.bytes.extend(name.as_bytes());
            this.bytes.push(0);
            this.bytes.extend(code);
        });
    }

    pub(crate) fn moved(&mut self, time: u64, from: u64, to: u64, size: u64, index: u64) {
        self.record(1, time, |this| {
            this.word(4711);
            this.word(4712);
            [to, from, to, size, index].iter().for_each(|&value| this.long(value));
        });
    }

    pub(crate) fn lines(&mut self, time: u64, address: u64, lines: &[(u64, u32, &[u8])]) {
        self.record(2, time, |this| {
            this.long(address);
            this.long(lines.len() as u64);
            for &(address, line, file) in lines {
                this.long(address);
                this.word(line);
                this.word(0);
                this.bytes.extend(file);
                this.bytes.push(0);
            }
        });
    }

    pub(crate) fn close(&mut self, time: u64) {
        self.record(3, time, |_| {});
    }

    pub(crate) fn unwinding(&mut self, time: u64, data: &[u8]) {
        self.record(4, time, |this| {
            [data.len() as u64, 4, data.len() as u64].iter().for_each(|&value| this.long(value));
            this.bytes.extend(data);
        });
    }

    pub(crate) fn unknown(&mut self, id: u32, time: u64) {
        self.record(id, time, |this| this.long(0));
    }
}
