/** The words about front matter that is refused: each says what the line must be instead. */
import { expect, test } from '@jest/globals'
import { readFrontMatter } from '../../../providers/tracker/local/front-matter.ts'

test.each<[string, number, string]>([
  ['', 1, 'must be ---, with the fields (title: …) below it and another --- at their end'],
  ['---\na: b\n', 1, 'opens the fields, and no second --- ends them; put one below the last field'],
  ['---\na: [ x ]# y', 2, 'has more behind its value; put the whole value in quotes'],
  ['---\na: x: y', 2, 'holds a colon and a space; put the text behind the first colon in quotes'],
  ['---\na: *x', 2, 'begins with *, which means something else in YAML; put it in quotes'],
  ['---\na: "x', 2, 'must end its text with the same double quote, and use no backslash but as in JSON'],
  ["---\na: 'x", 2, 'must end its text with a single quote, and write one inside it twice'],
  ['---\na: [x', 2, 'a list must end on its line, such as [bug, ui]; put quotes around odd items'],
  ['---\na: [x,, y]', 2, 'is a list with an item that is empty; take it out'],
  ['---\na: x\na: y', 3, 'a is there a second time; remove one of them'],
  [
    '---\njust words',
    2,
    'must be a field such as "state: Todo", beginning at the start of the line, its value on the same line',
  ],
  ['---\n- x', 2, 'is an item of no list; put it below a field with nothing behind its colon'],
  ['---\na:\n- ', 3, 'is an item with nothing in it; take it out'],
  ['---\n# \u0000', 2, 'holds a control character; remove it'],
])('the fault of %j', (text, line, message) => {
  expect(readFrontMatter(text)).toEqual({ ok: false, fault: { line, message } })
})
