/** The words about an invalid ticket file name the file, the line and the cure. */
import { expect, test } from '@jest/globals'
import { readTicket } from '../../../providers/tracker/local/ticket-file.ts'

const at = '2026-01-01T00:00:00.000Z'
const facts = { name: 'ENG-1.md', url: 'file:///t/ENG-1.md', createdAt: at, updatedAt: at }
const problemOf = (bytes: Uint8Array): string => {
  const read = readTicket(bytes, facts)
  return read.ok ? 'no problem' : read.problem
}

const PRIORITY =
  'line 2: priority must be urgent, high, medium, low or none, or a number from 1 (urgent) to 4 (low)'
const INSTANT = 'line 2: createdAt must be an instant such as 2026-01-31T12:00:00Z'

test.each<[string, string]>([
  ['priority: 5', PRIORITY],
  ['priority: constructor', PRIORITY],
  ['labels: bug', 'line 2: labels must be a list, such as [one, two]'],
  ['title: [a]', 'line 2: title must be one value, not a list'],
  ['description: x', 'line 2: description is the text below the second ---; put it there'],
  ['prioritty: 1', 'line 2: prioritty: unknown key, did you mean priority?'],
  ['__proto__: 1', 'line 2: __proto__: unknown key'],
  [
    '# c\nlabels: [""]\nurl: javascript:x',
    'line 4: url: must be empty, or an address that begins with https, http or file',
  ],
  ['id: ""', 'line 2: id: must not be empty'],
  ['createdAt: 2026-02-31', INSTANT],
  ['createdAt: yesterday', INSTANT],
  ['createdAt: 2026-01-31T25:00', INSTANT],
  ['title: a: b', 'line 2: holds a colon and a space; put the text behind the first colon in quotes'],
])('the problem of a file with %j', (lines, expected) => {
  expect(problemOf(Buffer.from(`---\n${lines}\n---\n`))).toBe(`ENG-1.md, ${expected}`)
})

test.each<[string, Uint8Array, string]>([
  ['an empty file', Buffer.from(''), ' is empty; write the ticket, or remove the file'],
  ['a file that is not UTF-8', Buffer.from([0x2d, 0xff]), ' is not UTF-8 text; save it as UTF-8'],
  [
    'a file without fields',
    Buffer.from('# Just a note\n'),
    ', line 1: must be ---, with the fields (title: …) below it and another --- at their end',
  ],
  [
    'a file whose id is too long',
    Buffer.from(`---\ntitle: x\nid: ${'課'.repeat(86)}\n---\n`),
    ', line 3: id: has more than 256 bytes; shorten it',
  ],
  [
    'a file with a long description',
    Buffer.from(`---\n---\n${'x'.repeat(200_000)}`),
    ' description: must have at most 131072 characters',
  ],
])('the problem of %s', (_, bytes, expected) => {
  expect(problemOf(bytes)).toBe(`ENG-1.md${expected}`)
})
