//! Lists of whole numbers as short texts: five bits a letter of the alphabet of base 64, the lowest first; the sixth bit says
//! that more follow. Most numbers of a profile take one letter or two, and nothing has to be escaped. A list of which all numbers
//! are the same is `=` and that number.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A list that grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    text: String,
    /// Where the first ends.
    first: usize,
    count: usize,
    differ: bool,
}

impl Numbers {
    pub(crate) fn push(&mut self, number: impl Into<u128>) {
        let start = self.text.len();
        let mut left = number.into();
        loop {
            let (low, high) = ((left & 31) as usize, left >> 5);
            let more = if high > 0 { 32 } else { 0 };
            self.text.push(char::from(DIGITS[low | more]));
            if high == 0 {
                break;
            }
            left = high;
        }
        if self.count == 0 {
            self.first = self.text.len();
        }
        self.count += 1;
        self.differ |= self.text[..self.first] != self.text[start..];
    }

    /// A number of either sign, as 0, -1, 1, -2, 2, ...
    pub(crate) fn push_signed(&mut self, number: i128) {
        self.push(if number < 0 { number.unsigned_abs() * 2 - 1 } else { number.unsigned_abs() * 2 });
    }
}

/// The text of the list; where all of its numbers are the same, `=` and this one.
impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.differ || self.count < 2 {
            true => f.write_str(&self.text),
            false => write!(f, "={}", &self.text[..self.first]),
        }
    }
}

impl<N: Into<u128>> FromIterator<N> for Numbers {
    fn from_iter<I: IntoIterator<Item = N>>(list: I) -> Self {
        let mut numbers = Numbers::default();
        list.into_iter().for_each(|number| numbers.push(number));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_a_letter_and_large_ones_as_many_as_they_need() {
        assert_eq!([0u64, 31, 32, 1023].into_iter().collect::<Numbers>().to_string(), "AfgB/f");
        let mut signed = Numbers::default();
        [0, -1, 1, -16].into_iter().for_each(|number| signed.push_signed(number));
        assert_eq!(signed.to_string(), "ABCf");
        assert_eq!([u64::MAX].into_iter().collect::<Numbers>().to_string().len(), 13);
    }

    #[test]
    fn a_list_of_one_number_tells_it_once() {
        let text = |list: &[u32]| list.iter().copied().collect::<Numbers>().to_string();
        assert_eq!(
            [text(&[]), text(&[40]), text(&[40, 40, 40]), text(&[40, 40, 8])],
            ["", "oB", "=oB", "oBoBI"]
        );
    }
}
