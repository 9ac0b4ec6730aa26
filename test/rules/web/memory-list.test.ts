/** Facts are found by words in them and by the ticket that recorded them. */
import { expect, test } from '@jest/globals'
import { filterMemories } from '../../../web/dashboard/memories/memory-list.ts'

const fact = (id: string, text: string, ident?: string) => ({
  id,
  text,
  createdAt: '2026-11-23T12:00:00.000Z',
  updatedAt: '2026-11-23T12:00:00.000Z',
  hits: 1,
  ...(ident === undefined ? {} : { ident }),
})
const repos = {
  'acme/web': [fact('1', 'Tests run with npm test', 'WEB-1'), fact('2', 'The build needs Node 22')],
  'acme/api': [fact('3', 'Never edit generated files')],
}
const idsOf = (words: string, remote = '') =>
  filterMemories(repos, { words, remote }).map(({ remote: name, facts, count }) => [
    name,
    facts.map(({ id }) => id).join(''),
    count,
  ])

test.each([
  [
    '',
    '',
    [
      ['acme/api', '3', 1],
      ['acme/web', '12', 2],
    ],
  ],
  ['node build', '', [['acme/web', '2', 2]]],
  ['web-1', '', [['acme/web', '1', 2]]],
  ['', 'acme/api', [['acme/api', '3', 1]]],
  ['nothing', '', []],
])('%p of %p', (words, remote, found) => expect(idsOf(words, remote)).toEqual(found))
