/** The lines of a story: as the frames come, and across a host that was started again. */
import { expect, test } from '@jest/globals'
import { StoryLines } from '../../../core/inspection/story.ts'
import type { InspectFrame, InspectionRecord } from '../../../protocol/inspection.ts'

const hello = (now: number): InspectFrame => ({ type: 'inspect-hello', version: '1', now, actors: 1 })
const detail = (state: string): InspectFrame => ({
  type: 'inspect-detail',
  detail: {
    actor: { id: 'run/a', kind: 'run', key: 'a', state },
    context: { attempt: 1 },
    hidden: 0,
    deadlines: {},
  },
  recent: [],
})
const record = (n: number, cause?: number): InspectionRecord => ({
  n,
  at: n,
  actor: 'run/a',
  is: 'event',
  name: 'granted',
  ...(cause === undefined ? {} : { cause }),
})
const records = (...list: InspectionRecord[]): InspectFrame => ({
  type: 'inspect-records',
  records: list,
  lost: 2,
})

test('numbers go on when the host was started again, and its actors are restored', () => {
  const story = new StoryLines({ source: 'host', title: '' })
  const frames = [hello(10), detail('queued'), records(record(1), record(2, 1)), hello(20), detail('running')]
  const lines = [...frames, records(record(1), record(2, 1))].flatMap((frame) => story.translate(frame))
  expect(lines.slice(0, 2)).toMatchObject([{ story: 1, at: 10 }, { context: { attempt: 1 } }])
  expect(lines.slice(2)).toMatchObject([
    { n: 1 },
    { n: 2, cause: 1 },
    { n: 3, is: 'restored', at: 20, after: 'running', context: { attempt: 1 } },
    { n: 4 },
    { n: 5, cause: 4 },
  ])
  expect(story.end(30)).toEqual({ end: 30, records: 5, lost: 4 })
})
