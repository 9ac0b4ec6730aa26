/**
 * Peers of earlier versions: whatever this version sends to them they read, and what was added since the first form is
 * marked.
 */
import { expect, test } from '@jest/globals'
import { firstFormSchemas, firstFormText, isFirstForm } from '../../../protocol/first-form.ts'
import { hostFrames, workerFrames } from '../../../protocol/frames.ts'
import { asShape, isObject } from '../../../protocol/schema-errors.ts'
import { PEERS, problemOfPeer, recordedFrames } from '../../peers/peer-schemas.ts'
import { hostFrameExamples, workerFrameExamples } from './examples.ts'

const FIRST = PEERS[0]

/** A schema without the words for people; the order of a union's branches says nothing. */
function bare(schema: unknown, key = ''): unknown {
  if (Array.isArray(schema)) {
    const items = schema.map((item) => bare(item))
    return ['anyOf', 'required'].includes(key) ? items.sort((a, b) => (text(a) < text(b) ? -1 : 1)) : items
  }
  if (!isObject(schema)) return schema
  const kept = Object.entries(schema).filter(
    ([name, value]) => !name.startsWith('x-') && !(typeof value === 'string' && WORDS.includes(name)),
  )
  return Object.fromEntries(kept.map(([name, value]) => [name, bare(value, name)]))
}

const WORDS = ['title', 'description']
const text = (schema: unknown): string =>
  JSON.stringify(schema, (_, value) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).sort()) : value,
  )

test('what is marked as added is all that the first form lacks', () => {
  const recorded = Object.fromEntries(recordedFrames(FIRST.version).map(({ type, schema }) => [type, schema]))
  const job = recorded.dispatch?.properties?.job
  const derived = bare(Object.fromEntries(firstFormSchemas()))
  // A job that only publishes goes to no worker of the first form: only workers that say `publish` get one.
  expect(derived).toMatchObject({
    dispatch: { properties: { job: { properties: { kind: { enum: ['run', 'follow-up', 'publish'] } } } } },
  })
  expect(derived).toEqual(
    bare({
      ...recorded,
      dispatch: {
        ...recorded.dispatch,
        properties: {
          ...recorded.dispatch?.properties,
          job: {
            ...job,
            required: job?.required?.filter((key) => key !== 'agent'),
            properties: { ...job?.properties, kind: { enum: ['run', 'follow-up', 'publish'] } },
          },
        },
      },
    }),
  )
})

const sent = [
  ...Object.values(hostFrameExamples).map((frame) => ['host', frame.type, frame] as const),
  ...Object.values(workerFrameExamples).map((frame) => ['worker', frame.type, frame] as const),
]

test.each(sent)('%s: %s is read by a peer of the first form, or is not sent', (from, type, frame) => {
  const text = firstFormText(frame)
  const isAdded = asShape({ ...workerFrames, ...hostFrames }[type])['x-added'] === true
  expect(text === undefined).toBe(isAdded)
  if (text !== undefined) expect(problemOfPeer(FIRST, from, JSON.parse(text))).toBeUndefined()
})

test('the first form refuses what was added', () => {
  const refused = sent.filter(([from, , frame]) => problemOfPeer(FIRST, from, frame) !== undefined)
  expect(refused.map(([from, type]) => `${from}: ${type}`)).toEqual(
    expect.arrayContaining([
      'host: registered',
      'host: heartbeat-ack',
      'worker: register',
      'worker: heartbeat',
    ]),
  )
})

test.each(sent)('%s: %s is read by a peer that ignores unknown keys', (from, _type, frame) => {
  for (const peer of PEERS)
    if (peer.reads === 'open')
      expect([peer.version, problemOfPeer(peer, from, frame)]).toEqual([peer.version, undefined])
})

test('no frame with a number was added, because a peer of the first form could not count it', () => {
  const numbered = Object.entries(workerFrames).filter(
    ([, schema]) => 'seq' in (asShape(schema).properties ?? {}),
  )
  expect(numbered.length).toBeGreaterThan(4)
  for (const [type] of numbered) expect(firstFormSchemas().has(type)).toBe(true)
})

test('a worker that names something newer reads openly', () => {
  const { oldestProtocolVersion: _, ...rest } = workerFrameExamples.register
  const { agents: __, ...capabilities } = rest.capabilities
  const register = { ...rest, capabilities }
  expect(isFirstForm(register)).toBe(true)
  expect(isFirstForm(workerFrameExamples.register)).toBe(false)
  expect(isFirstForm({ ...register, auth: { kind: 'join', key: 'wj-1' } })).toBe(false)
  expect(isFirstForm({ ...register, capabilities: { ...register.capabilities, publish: true } })).toBe(false)
})
