/** Stories are checked before they are shown; one that was cut off is shown as far as it goes. */
import { expect, test } from '@jest/globals'
import { checkStory } from '../../../core/inspection/story.ts'

const HEAD = JSON.stringify({ story: 1, at: 1, version: '1', source: 'host', title: '' })
const RECORD = JSON.stringify({ n: 1, at: 1, actor: 'run/a', is: 'event', name: 'granted' })
const END = JSON.stringify({ end: 2, records: 1, lost: 0 })

test.each([
  ['whole', `${HEAD}\n${RECORD}\n${END}\n`, false, 3],
  ['cut off between lines', `${HEAD}\n${RECORD}\n`, true, 2],
  ['cut off within a line', `${HEAD}\n${RECORD.slice(0, 9)}`, true, 1],
])('a story that is %s', (_, text, isIncomplete, lines) => {
  const checked = checkStory(text)
  if (!checked.ok) throw new Error(checked.refusal.message)
  expect([checked.value.isIncomplete, checked.value.text.trimEnd().split('\n').length]).toEqual([
    isIncomplete,
    lines,
  ])
})

test.each([
  ['nothing', '', /line 1 is no head of a story/],
  ['another file', '{"name":"switchyard"}\n', /line 1 is no head.*switchyard inspect --record FILE/],
  ['a newer story', `${HEAD.replace('1', '2')}\n`, /line 1 is no head/],
  ['a damaged line', `${HEAD}\n{"n":1}\n${END}\n`, /line 2 is damaged/],
])('%s is refused by the number of its line', (_, text, reason) => {
  const checked = checkStory(text)
  expect(checked.ok ? '' : checked.refusal.message).toMatch(reason)
})
