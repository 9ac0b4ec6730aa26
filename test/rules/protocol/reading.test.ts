/** Tests of reading a worker's frames: the first frame, later frames, and packed usage. */
import { describe, expect, test } from '@jest/globals'
import { readRegister, readWorkerFrame } from '../../../protocol/frames.ts'
import { type PackedUsage, packUsage, type UsageEntry, unpackUsage } from '../../../protocol/usage.ts'
import { at, workerFrameExamples } from './examples.ts'

const { register, ...later } = workerFrameExamples
const text = (frame: unknown): string => JSON.stringify(frame)
const errorOf = (read: ReturnType<typeof readWorkerFrame>) => (read.ok ? 'accepted' : read.error)

describe('the first frame', () => {
  test('is register', () => {
    expect(readRegister(text(register))).toEqual({ is: 'register', frame: register })
    expect(readWorkerFrame(text(register), false)).toEqual({ ok: true, value: register })
  })

  test('of another version is refused for its version, whatever else is wrong', () => {
    expect(readRegister(text({ type: 'register', protocolVersion: 2, passport: {} }))).toEqual({
      is: 'protocol',
      reason: 'this host speaks protocol version 1, the worker version 2: update switchyard on the host',
    })
    const newer = { ...register, protocolVersion: 3, oldestProtocolVersion: 2, auth: {} }
    expect(readRegister(text({ ...newer, capabilities: { version: '0.3.0' } }), '0.1.0')).toEqual({
      is: 'protocol',
      reason:
        'this host (0.1.0) speaks protocol version 1, the worker (0.3.0) versions 2 to 3: update switchyard on the host',
    })
    const strange = { ...newer, oldestProtocolVersion: '2', capabilities: { version: '\u001b[2J' } }
    expect(readRegister(text(strange), '0.1.0')).toMatchObject({
      reason: expect.stringContaining('the worker version 3:'),
    })
    expect(readRegister(text({ ...register, protocolVersion: 0 }))).toMatchObject({
      is: 'protocol',
      reason: expect.stringMatching(/update switchyard on the worker’s machine$/),
    })
  })

  test.each<[string, string, RegExp]>([
    ['no JSON', 'hello', /^the first frame must be register: \/: is not JSON/],
    ['another frame', text(later.heartbeat), /\/type: must be "register", not "heartbeat"/],
    ['no object', '[]', /must be register/],
    ['a prototype', '{"type":"register","protocolVersion":1,"__proto__":{}}', /never accepted/],
    ['too many keys', `{"type":"register","x":[${'{"a":1},'.repeat(10_000)}1]}`, /more than 10000 keys/],
  ])('%s is malformed', (_, text, reason) => {
    expect(readRegister(text)).toEqual({ is: 'malformed', reason: expect.stringMatching(reason) })
    expect(errorOf(readWorkerFrame(text, false))).toMatch(reason)
  })
})

describe('every later frame', () => {
  test.each(Object.values(later))('$type', (frame) => {
    expect(readWorkerFrame(text(frame), true)).toEqual({ ok: true, value: frame })
  })

  test('is not register', () => {
    expect(errorOf(readWorkerFrame(text(register), true))).toMatch(/^\/type: must not be register/)
  })

  test('has no key that reaches into a prototype, even where no schema limits the keys', () => {
    const event = { at, type: 'agent', provider: 'agentA', message: { content: [] } }
    const frame = text({ ...later['run-event'], event })
    for (const key of ['__proto__', 'constructor', 'prototype', '\\u005f_proto__'])
      expect(errorOf(readWorkerFrame(frame.replace('[]', `[{"${key}":1}]`), true))).toMatch(/never accepted$/)
    expect(errorOf(readWorkerFrame(frame.replace('[]', `${'['.repeat(31)}${']'.repeat(31)}`), true))).toMatch(
      /deeper/,
    )
    for (const key of ['__proto__', 'constructor'])
      expect(errorOf(readWorkerFrame(frame.replace('{', `{"${key}":1,`), true))).toMatch(/never accepted$/)
  })
})

describe('packed usage', () => {
  const entry: UsageEntry = {
    id: 'msg-1',
    at,
    model: 'large',
    inputTokens: 1,
    outputTokens: 2,
    cacheReadTokens: 3,
    cacheWriteTokens: 4,
  }
  const good = packUsage([entry, { ...entry, id: 'msg-2', at: '2026-02-28T08:30:00.000Z', costUsd: 1 }])
  const send = (packed: object | undefined, more: object = {}) =>
    readWorkerFrame(
      text({
        ...later['run-usage-snapshot'],
        snapshot: { projectKey: 'p', sessionId: 's', packed, ...more },
      }),
      true,
    )

  test('is unpacked before the frame is used', () => {
    const read = send(good)
    expect(read).toMatchObject({
      ok: true,
      value: { snapshot: { entries: [{ id: 'msg-1' }, { id: 'msg-2', costUsd: 1 }] } },
    })
    expect(text(read)).not.toContain('packed')
  })

  test('without entries unpacks to no entries', () => {
    const packed = packUsage([])
    expect(packed && unpackUsage(packed)).toEqual({ ok: true, value: [] })
  })

  test.each<[string, Partial<PackedUsage>, RegExp]>([
    ['a column too short', { inputTokens: [1] }, /^\/snapshot\/packed\/inputTokens: must have as many/],
    ['a column too long', { at: [1, 2, 3] }, /\/at: must have as many/],
    ['costs too short', { costUsd: [] }, /\/costUsd: must have as many/],
    ['a model that is not there', { model: [0, 1] }, /\/model\/1: must be the place/],
    ['an instant after all instants', { at: [9e15, 1] }, /\/at\/0: is no instant/],
    ['an id of nothing', { idsBegin: '', ids: ['', 'x'] }, /\/entries\/0\/id: must not be empty/],
    [
      'an id too long',
      { idsBegin: 'x'.repeat(200), ids: ['y'.repeat(100), ''] },
      /\/entries\/0\/id: must have at most/,
    ],
  ])('%s', (_, change, error) => {
    expect(errorOf(send({ ...good, ...change }))).toMatch(error)
  })

  test('with both forms, or neither, is refused', () => {
    expect(errorOf(send(good, { entries: [] }))).toBe('/snapshot/packed: must not stand beside entries')
    expect(errorOf(send(undefined))).toBe('/snapshot/entries: is required')
  })

  test('that would unpack to a large text is refused before unpacking', () => {
    const n = 20_000
    const zeros = new Array<number>(n).fill(0)
    const bomb: PackedUsage = {
      models: ['m'.repeat(512)],
      idsBegin: 'i'.repeat(255),
      ids: new Array<string>(n).fill('x'),
      at: zeros,
      model: zeros,
      inputTokens: zeros,
      outputTokens: zeros,
      cacheReadTokens: zeros,
      cacheWriteTokens: zeros,
    }
    expect(text(bomb).length).toBeLessThan(400_000)
    expect(errorOf(send(bomb))).toBe('/snapshot/packed: must unpack to at most 4194304 bytes')
  })
})
