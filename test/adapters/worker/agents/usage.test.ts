/** Tests of usage from transcripts: every token once, and no conversation text. */
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { PRICES } from '../../../../core/run/price-table.ts'
import { usageToArchive } from '../../../../core/run/usage.ts'
import { UsageSnapshot } from '../../../../protocol/frames.ts'
import { USAGE_ENTRIES_MAX } from '../../../../protocol/limits.ts'
import { createChecker } from '../../../../protocol/parse.ts'
import type { AgentFiles } from '../../../../worker/agents/agent.ts'
import { createAnswersFactory } from '../../../../worker/agents/agent-a/transcript.ts'
import { openAgentFiles } from '../../../../worker/agents/agent-files.ts'
import { bestCost, costFromUsage } from '../../../../worker/agents/cost.ts'
import { createAgentDrivers } from '../../../../worker/agents/registry.ts'
import { AT } from './recorded-events.ts'

const { agentA, agentB, agentC } = createAgentDrivers({ path: '', home: '/root', hasOwnUsers: false })
const SESSION = '11111111-2222-4333-8444-555555555555'
const THREAD = '01a1fef1-f06c-7300-b5c1-302ebd2cfb1d'
const CHILD = '01a1fef2-0624-7382-b63d-c786e4ff98c5'
let home = ''

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'switchyard-usage-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

function put(path: string, lines: readonly unknown[]): string {
  const whole = join(home, path)
  mkdirSync(dirname(whole), { recursive: true })
  writeFileSync(
    whole,
    lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
  )
  return whole
}

interface RecordedAnswer {
  readonly id: string
  readonly out?: number
  readonly model?: string
  readonly at?: string
  readonly words?: string
}

/** An answer as agentA records it, with additional fields. */
const answer = ({ id, out = 40, model = 'claude-sonnet-4-5', at = AT, words = '' }: RecordedAnswer) => ({
  type: 'assistant',
  timestamp: at,
  sessionId: SESSION,
  requestId: 'req_011fake',
  cwd: words,
  message: {
    id,
    model,
    role: 'assistant',
    content: [{ type: 'text', text: words }],
    usage: {
      input_tokens: 100,
      cache_creation_input_tokens: 2000,
      cache_read_input_tokens: 5000,
      output_tokens: out,
      cache_creation: { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 1500 },
      note: words,
    },
  },
})

describe('agentA', () => {
  const main = `.claude/projects/-work/${SESSION}.jsonl`

  test('an answer counts once, with its latest figures, and nested agents have snapshots of their own', async () => {
    put(main, [
      { type: 'user', message: { role: 'user', content: 'Please.' } },
      answer({ id: 'msg_1', out: 1 }),
      'no JSON "assistant"',
      answer({ id: 'msg_1' }),
      answer({ id: 'msg_0', model: '<synthetic>' }),
      answer({ id: 'msg_2', at: '2026-11-21T01:31:00.000Z', model: 'claude-unheard-of' }),
    ])
    put(`.claude/projects/-work/${SESSION}/subagents/agent-aea77.jsonl`, [answer({ id: 'msg_3' })])
    put(`.claude/projects/-work/${SESSION}/subagents/agent-aea77.meta.json`, [{}])
    put('.claude/projects/-work/other.jsonl', [answer({ id: 'msg_4' })])
    const snapshots = await agentA.readUsage(openAgentFiles(home), SESSION)
    const tokens = { inputTokens: 100, outputTokens: 40, cacheReadTokens: 5000, cacheWriteTokens: 2000 }
    // 0.0003 + 0.0015 + 0.001875 + 0.009 + 0.0006 dollars.
    const priced = { model: 'claude-sonnet-4-5', ...tokens, costUsd: 0.013275 }
    expect(snapshots.map(({ sha256: _, ...rest }) => rest)).toEqual([
      {
        projectKey: '-work',
        sessionId: SESSION,
        entries: [
          { id: 'msg_1:req_011fake', at: AT, ...priced },
          { id: 'msg_2:req_011fake', at: '2026-11-21T01:31:00.000Z', model: 'claude-unheard-of', ...tokens },
        ],
      },
      {
        projectKey: '-work',
        sessionId: SESSION,
        subagentId: 'aea77',
        entries: [{ id: 'msg_3:req_011fake', at: AT, ...priced }],
      },
    ])
    for (const snapshot of snapshots) {
      expect(createChecker(UsageSnapshot)(snapshot)).toMatchObject({ ok: true })
      expect(usageToArchive(snapshot)).toMatchObject({ ok: true })
    }
  })

  describe('after a person took over', () => {
    const CAME = '2026-11-21T02:00:00.000Z'
    const LATER = '2026-11-21T02:30:00.000Z'
    const [CLEARED, BRANCH] = ['66666666-2222-4333-8444-555555555555', '22222222-2222-4333-8444-555555555555']
    const used = async (since?: string) =>
      (await agentA.readUsage(openAgentFiles(home), SESSION, since)).map(
        ({ sessionId, subagentId, entries }) => [
          sessionId,
          subagentId,
          entries.map(({ id }) => id.split(':')[0]),
        ],
      )

    test('later usage of other sessions is added, each answer once', async () => {
      put(main, [answer({ id: 'msg_1' }), answer({ id: 'msg_2', at: LATER })])
      put(`.claude/projects/-work/${SESSION}/subagents/agent-aea77.jsonl`, [
        answer({ id: 'msg_3', at: LATER }),
      ])
      // A cleared session. Usage of earlier executions of the run elsewhere is already reported with those.
      put(`.claude/projects/-work/${CLEARED}.jsonl`, [
        answer({ id: 'msg_0' }),
        answer({ id: 'msg_4', at: LATER, out: 1 }),
        answer({ id: 'msg_4', at: LATER }),
      ])
      put(`.claude/projects/-work/${CLEARED}/subagents/agent-bea77.jsonl`, [
        answer({ id: 'msg_5', at: LATER }),
      ])
      // A branch starts as a copy.
      put(`.claude/projects/-work/${BRANCH}.jsonl`, [
        ...['msg_1', 'msg_2', 'msg_3', 'msg_4'].map((id) => answer({ id, at: LATER })),
        answer({ id: 'msg_6', at: CAME }),
      ])
      put('.claude/projects/-work-src/more.jsonl', [answer({ id: 'msg_7', at: LATER })])
      expect(await used(CAME)).toEqual([
        [SESSION, undefined, ['msg_1', 'msg_2', 'msg_4', 'msg_6', 'msg_5', 'msg_7']],
        [SESSION, 'aea77', ['msg_3']],
      ])
      const [whole] = await agentA.readUsage(openAgentFiles(home), SESSION, CAME)
      expect(whole?.entries.map(({ outputTokens }) => outputTokens)).toEqual(Array(6).fill(40))
      expect(whole === undefined || usageToArchive(whole).ok).toBe(true)
      expect(await used()).toEqual([
        [SESSION, undefined, ['msg_1', 'msg_2']],
        [SESSION, 'aea77', ['msg_3']],
      ])
    })

    test('a session cleared before its first answer still gets the usage of other sessions', async () => {
      put(main, [{ type: 'user', message: { role: 'user', content: '/clear' } }])
      put(`.claude/projects/-work/${CLEARED}.jsonl`, [answer({ id: 'msg_4', at: LATER })])
      expect(await used(CAME)).toEqual([[SESSION, undefined, ['msg_4']]])
      expect(await used()).toEqual([])
    })

    test('the number of transcripts read is limited', async () => {
      const names = Array.from({ length: 2_100 }, (_, n) => `s${n}.jsonl`)
      const many: AgentFiles = {
        list: async (folder) =>
          ({ '.claude/projects': ['-work'], '.claude/projects/-work': names })[folder] ?? [],
        async *lines(path) {
          yield JSON.stringify(answer({ id: `msg_${path.replace(/\W/g, '')}`, at: LATER }))
        },
      }
      const [whole] = await agentA.readUsage(many, SESSION, CAME)
      expect(whole?.entries).toHaveLength(2_001)
    })
  })

  describe('unreported usage', () => {
    const PLAIN = 'claude-sonnet-4-5'
    /** The usage of several calls, each like that of an answer. */
    const account = (calls: number, model = PLAIN) => ({
      type: 'cost-state',
      sessionId: SESSION,
      totalCostUSD: calls,
      modelUsage: {
        [model]: {
          inputTokens: 100 * calls,
          outputTokens: 40 * calls,
          cacheReadInputTokens: 5_000 * calls,
          cacheCreationInputTokens: 2_000 * calls,
        },
      },
    })
    const instant = (minute: number) => new Date(Date.UTC(2026, 10, 21, 2, minute)).toISOString()
    const summedUp = (minute: number) => ({
      type: 'system',
      subtype: 'compact_boundary',
      timestamp: instant(minute),
    })
    const used = async (since?: string) =>
      (await agentA.readUsage(openAgentFiles(home), SESSION, since)).flatMap(({ entries }) => entries)
    const calls = (entries: readonly { readonly inputTokens: number; readonly outputTokens: number }[]) =>
      entries.map(({ inputTokens, outputTokens }) => [inputTokens / 100, outputTokens / 40])

    test('is found in session totals, and counts once, at its instant', async () => {
      const lines: unknown[] = [
        answer({ id: 'msg_1', at: instant(1), model: `${PLAIN}-20250929` }),
        account(1),
      ]
      put(main, lines)
      expect(calls(await used())).toEqual([[1, 1]])
      lines.push(answer({ id: 'msg_2', at: instant(2) }), summedUp(3), account(4), account(4))
      put(main, lines)
      const [, , unsaid] = await used()
      expect(unsaid).toMatchObject({ at: instant(3), model: PLAIN, inputTokens: 200, outputTokens: 80 })
      lines.push(answer({ id: 'msg_3', at: instant(4) }), account(6), 'no "cost-state"')
      put(main, lines)
      expect((await used()).map(({ at, inputTokens }) => [at, inputTokens])).toEqual([
        [instant(1), 100],
        [instant(2), 100],
        [instant(4), 100],
        [instant(3), 200],
        [instant(4), 100],
      ])
    })

    test('excludes the answer that an interrupted agent writes after its total', async () => {
      const lines: unknown[] = [answer({ id: 'msg_1', at: instant(1) }), account(1)]
      put(main, [...lines, account(2), answer({ id: 'msg_2', at: instant(2) }), account(2)])
      expect(calls(await used())).toEqual([
        [1, 1],
        [1, 1],
      ])
      // A total that begins anew confirms nothing.
      put(main, [...lines, summedUp(3), account(3), answer({ id: 'msg_2', at: instant(4) }), account(1)])
      expect(calls(await used())).toEqual([
        [1, 1],
        [1, 1],
        [2, 2],
      ])
    })

    test('excludes answers of nested agents and copied answers of a branch', async () => {
      const nested = `.claude/projects/-work/${SESSION}/subagents/agent-aea77.jsonl`
      put(nested, [answer({ id: 'msg_2', at: instant(5) })])
      // The total was written before the nested agent completed its answer.
      put(main, [answer({ id: 'msg_1', at: instant(1) }), account(2)])
      // The branch's name sorts first, and its copied lines come first.
      const branch = '.claude/projects/-work/0aaaaaaa-2222-4333-8444-555555555555.jsonl'
      const cleared = '.claude/projects/-work/1aaaaaaa-2222-4333-8444-555555555555.jsonl'
      put(cleared, [answer({ id: 'msg_4', at: instant(1) }), account(1)])
      put(branch, [
        { ...answer({ id: 'msg_4', at: instant(1) }), forkedFrom: { sessionId: SESSION } },
        answer({ id: 'msg_3', at: instant(6) }),
        summedUp(7),
        account(2),
      ])
      // Two of its own, three of other sessions, one of them for summarizing.
      expect(calls(await used(instant(0)))).toEqual(Array(5).fill([1, 1]))
    })

    test('excludes the answer of a nested agent in the same millisecond as the line after the total', async () => {
      put(`.claude/projects/-work/${SESSION}/subagents/agent-aea77.jsonl`, [
        answer({ id: 'msg_2', at: instant(5) }),
      ])
      put(main, [
        answer({ id: 'msg_1', at: instant(1) }),
        account(2),
        answer({ id: 'msg_3', at: instant(5) }),
      ])
      expect(calls(await used())).toEqual(Array(3).fill([1, 1]))
    })

    test('excludes earlier answers of the session in another project', async () => {
      put(main, [
        answer({ id: 'msg_1', at: instant(1) }),
        answer({ id: 'msg_2', at: instant(2) }),
        account(2),
      ])
      put(`.claude/projects/-work-tree/${SESSION}.jsonl`, [
        answer({ id: 'msg_3', at: instant(3) }),
        account(3),
      ])
      expect(calls(await used())).toEqual(Array(3).fill([1, 1]))
    })

    test('is ignored when a total cannot be compared', async () => {
      for (const wrong of [account(3, 'claude-opus-4-5'), { ...account(3), modelUsage: [] }, account(0)]) {
        put(main, [account(9), answer({ id: 'msg_1', at: instant(1) }), wrong])
        expect(calls(await used())).toEqual([[1, 1]])
      }
    })

    test('is ignored above the limit of answers, in however many transcripts they are', async () => {
      const begin = createAnswersFactory()
      const use = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 }
      const transcripts = Array.from({ length: 3 }, (_, nth) => {
        const answers = begin()
        for (let n = 0; n < USAGE_ENTRIES_MAX; n++)
          answers.add({ id: `msg_${nth}x${n}`, at: AT, model: PLAIN, use })
        return [...answers].length
      })
      expect(transcripts.reduce((sum, kept) => sum + kept, 0)).toBeLessThanOrEqual(USAGE_ENTRIES_MAX)

      put(main, [answer({ id: 'msg_1', at: instant(1) }), account(USAGE_ENTRIES_MAX + 2)])
      const half = (name: string) =>
        Array.from({ length: USAGE_ENTRIES_MAX / 2 }, (_, n) => answer({ id: `msg_${name}${n}`, out: 40 }))
      for (const name of ['a', 'b'])
        put(`.claude/projects/-work/${SESSION}/subagents/agent-${name}.jsonl`, half(name))
      const [own] = await agentA.readUsage(openAgentFiles(home), SESSION)
      expect(own?.entries.map(({ id }) => id)).toEqual(['msg_1:req_011fake'])
    })

    test('is complete and never counted twice, whenever it is read', async () => {
      const action = fc.constantFrom('answers', 'sums up', 'nested agent answers', 'accounts')
      await fc.assert(
        fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
          const [own, nested]: [object[], object[]] = [[answer({ id: 'msg_0', at: instant(0) })], []]
          let [made, accounted] = [1, 1]
          for (const [index, what] of actions.entries()) {
            const recorded = { id: `msg_${index + 1}`, at: instant(index + 1) }
            if (what !== 'accounts') made += 1
            if (what === 'answers') own.push(answer(recorded))
            if (what === 'sums up') own.push(summedUp(index + 1))
            if (what === 'nested agent answers') nested.push(answer(recorded))
            if (what === 'accounts') own.push(account(made))
            if (what === 'accounts') accounted = made
          }
          put(main, own)
          put(`.claude/projects/-work/${SESSION}/subagents/agent-aea77.jsonl`, nested)
          const sum = (await used()).reduce((all, { inputTokens }) => all + inputTokens / 100, 0)
          expect(sum).toBeLessThanOrEqual(made)
          if (actions.at(-1) === 'accounts') expect(sum).toBe(made)
          expect(sum).toBeGreaterThanOrEqual(actions.at(-1) === 'accounts' ? accounted : 1)
        }),
        { numRuns: 150 },
      )
    })
  })

  test('an answer with a far future instant gets the instant of the one before it', async () => {
    const read = Date.parse(AT) + 60_000
    const wrong = ['9999-12-31T23:59:59.999Z', new Date(read + 2 * 86_400_000).toISOString(), 'tomorrow']
    const [before, after] = [AT, new Date(read).toISOString()]
    for (const at of wrong) {
      put(main, [
        answer({ id: 'msg_1', at: before }),
        answer({ id: 'msg_2', at }),
        answer({ id: 'msg_3', at: after }),
      ])
      const [own] = await agentA.readUsage(openAgentFiles(home, undefined, read), SESSION)
      expect(own?.entries.map(({ at }) => at)).toEqual([before, before, after])
    }
  })

  test('no text of a transcript is reported, wherever it occurs', async () => {
    const WORD = 'PLANTED'
    const words = fc.string({ maxLength: 8 }).map((text) => `${text} ${WORD} ${text}`)
    const wild = fc.anything({ values: [words, fc.nat()], key: words, maxDepth: 3 })
    const recorded = fc.record({
      type: fc.constantFrom('assistant', 'user', 'summary'),
      timestamp: fc.oneof(words, fc.constant(AT)),
      requestId: words,
      uuid: words,
      message: fc.oneof(
        wild,
        fc.record({
          id: words,
          model: words,
          content: wild,
          usage: fc.dictionary(
            fc.constantFrom('input_tokens', 'output_tokens', 'x'),
            fc.oneof(fc.nat(), words),
          ),
        }),
      ),
      more: wild,
    })
    await fc.assert(
      fc.asyncProperty(fc.array(recorded, { maxLength: 10 }), async (lines) => {
        put(main, lines)
        const snapshots = await agentA.readUsage(openAgentFiles(home), SESSION)
        expect(JSON.stringify(snapshots)).not.toContain(WORD)
        for (const snapshot of snapshots)
          expect(createChecker(UsageSnapshot)(snapshot)).toMatchObject({ ok: true })
      }),
      { numRuns: 200 },
    )
  })

  test('answers above the limit of a snapshot are merged without losing a token', async () => {
    const count = USAGE_ENTRIES_MAX + 500
    put(
      main,
      Array.from({ length: count }, (_, i) => answer({ id: `msg_${i}`, out: 1 })),
    )
    const [snapshot] = await agentA.readUsage(openAgentFiles(home), SESSION)
    expect(snapshot?.entries.length).toBeLessThanOrEqual(USAGE_ENTRIES_MAX)
    expect(snapshot?.entries.reduce((sum, entry) => sum + entry.outputTokens, 0)).toBe(count)
  })

  test('links, hard links and paths outside are not followed', async () => {
    const secret = put('elsewhere/file', [answer({ id: 'msg_1' })])
    mkdirSync(join(home, '.claude/projects/-work'), { recursive: true })
    const place = join(home, main)
    const usage = () => agentA.readUsage(openAgentFiles(home), SESSION)
    symlinkSync(secret, place)
    expect(await usage()).toEqual([])
    rmSync(place)
    linkSync(secret, place)
    expect(await usage()).toEqual([])
    rmSync(join(home, '.claude'), { recursive: true })
    put(`real/projects/-work/${SESSION}.jsonl`, [answer({ id: 'msg_1' })])
    symlinkSync(join(home, 'real'), join(home, '.claude'))
    expect(await usage()).toEqual([])
    expect(await agentA.readUsage(openAgentFiles(home), '../../elsewhere')).toEqual([])
    expect(await openAgentFiles(home).list('../../..')).toEqual([])
  })
})

describe('limits of reading', () => {
  const linesOf = async (files: ReturnType<typeof openAgentFiles>, path: string): Promise<number> => {
    let count = 0
    for await (const _ of files.lines(path)) count += 1
    return count
  }

  test('bound the bytes read from large sparse files', async () => {
    const names = ['first', 'second', 'third']
    for (const name of names) truncateSync(put(name, ['']), 512 * 1024 * 1024)
    const files = openAgentFiles(home)
    const counts = []
    for (const name of names) counts.push(await linesOf(files, name))
    expect(counts).toEqual([1, 1, 0])
  })

  test('bound the number of names', async () => {
    mkdirSync(join(home, 'many'), { recursive: true })
    for (let n = 0; n < 10_100; n += 1) mkdirSync(join(home, 'many', `${n}`))
    expect(await openAgentFiles(home).list('many')).toHaveLength(10_000)
  })

  test('stop reading when the result is no longer wanted', async () => {
    put('lines', ['one', 'two'])
    expect(await linesOf(openAgentFiles(home), 'lines')).toBe(2)
    expect(
      await linesOf(
        openAgentFiles(home, () => false),
        'lines',
      ),
    ).toBe(0)
    mkdirSync(join(home, 'more/one'), { recursive: true })
    expect(await openAgentFiles(home).list('more')).toEqual(['one'])
    expect(await openAgentFiles(home, () => false).list('more')).toEqual([])
  })
})

test('the responses of a session are limited, in however many files they are recorded', async () => {
  async function* recorded(name: string, count: number) {
    for (let n = 0; n < count; n += 1) yield JSON.stringify(answer({ id: `msg_${name}${n}` }))
  }
  const files: AgentFiles = {
    list: async (folder) =>
      folder.endsWith('/subagents') ? ['agent-one.jsonl', 'agent-two.jsonl'] : ['-work'],
    lines: (path) => recorded(/(\w+)\.jsonl$/.exec(path)?.[1] ?? '', 100_000),
  }
  const snapshots = await agentA.readUsage(files, SESSION)
  expect(snapshots.map(({ subagentId }) => subagentId)).toEqual([undefined, 'one'])
}, 240_000)

describe('agentB', () => {
  const folder = `.codex-sessions/${SESSION}/2026/11/21`
  const context = (model: string) => ({
    timestamp: AT,
    type: 'turn_context',
    payload: { turn_id: 't', model },
  })
  const record = (response: string, session = THREAD) => ({
    timestamp: AT,
    type: 'token_usage_record',
    payload: {
      thread_id: THREAD,
      session_id: session,
      response_id: response,
      usage: {
        input_tokens: 1000,
        cached_input_tokens: 600,
        cache_write_input_tokens: 100,
        output_tokens: 50,
      },
    },
  })

  test('each response is an entry with the model of its turn, and a copied one is not counted again', async () => {
    put(`${folder}/rollout-2026-11-21T16-30-31-${THREAD}.jsonl`, [
      { type: 'session_meta', payload: { base_instructions: { text: 'Words.' } } },
      context('gpt-6-sol'),
      record('resp_1'),
      context('gpt-6-luna'),
      record('resp_2'),
    ])
    put(`${folder}/rollout-2026-11-21T16-30-36-${CHILD}.jsonl`, [
      context('gpt-6-sol'),
      record('resp_1'),
      record('resp_3'),
    ])
    const tokens = { inputTokens: 300, outputTokens: 50, cacheReadTokens: 600, cacheWriteTokens: 100 }
    const snapshots = await agentB.readUsage(openAgentFiles(home), SESSION)
    expect(snapshots.map(({ sha256: _, ...rest }) => rest)).toEqual([
      {
        projectKey: '-work',
        sessionId: THREAD,
        entries: [
          { id: 'resp_1', at: AT, model: 'gpt-6-sol', ...tokens, costUsd: 0.00147 },
          { id: 'resp_2', at: AT, model: 'gpt-6-luna', ...tokens, costUsd: 0.0000735 },
        ],
      },
      {
        projectKey: '-work',
        sessionId: THREAD,
        subagentId: CHILD,
        entries: [{ id: 'resp_3', at: AT, model: 'gpt-6-sol', ...tokens, costUsd: 0.00147 }],
      },
    ])
    expect(costFromUsage('agentB', snapshots, PRICES)).toEqual({
      label: 'run',
      provider: 'agentB',
      inputTokens: 900,
      outputTokens: 150,
      cacheReadTokens: 1800,
      cacheWriteTokens: 300,
      costUsd: 0.0030135,
      estimated: true,
      source: 'estimated',
      breakdown: [
        {
          model: 'gpt-6-sol',
          inputTokens: 600,
          outputTokens: 100,
          cacheReadTokens: 1200,
          cacheWriteTokens: 200,
          costUsd: 0.00294,
        },
        { model: 'gpt-6-luna', ...tokens, costUsd: 0.0000735 },
      ],
    })
  })

  test('another execution of the same home is not counted', async () => {
    put(`.codex-sessions/other/2026/11/21/rollout-x-${THREAD}.jsonl`, [
      context('gpt-6-sol'),
      record('resp_1'),
    ])
    expect(await agentB.readUsage(openAgentFiles(home), SESSION)).toEqual([])
  })
})

test('agentC keeps no records', async () => {
  expect(await agentC.readUsage(openAgentFiles(home), SESSION)).toEqual([])
})

describe('the cost from transcripts', () => {
  const entry = {
    id: 'a',
    at: AT,
    model: 'gpt-6-sol',
    inputTokens: 300_000,
    outputTokens: 10,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
  }
  const snapshot = {
    projectKey: '-work',
    sessionId: 's',
    entries: [entry, { ...entry, id: 'b', at: '2026-11-21T02:00:00.000Z' }],
  }

  test('includes the surcharge for a long request', () => {
    const cost = costFromUsage('agentB', [{ ...snapshot, entries: [entry] }], PRICES)
    expect(cost).toMatchObject({ model: 'gpt-6-sol', costUsd: 1.20015, estimated: true })
  })

  test('excludes earlier usage', () => {
    expect(costFromUsage('agentB', [snapshot], PRICES, '2026-11-21T01:45:00.000Z')).toMatchObject({
      inputTokens: 300_000,
    })
    expect(costFromUsage('agentB', [snapshot], PRICES, '2026-11-22T00:00:00.000Z')).toBeUndefined()
  })

  test('is preferred to observed usage, but not to the agent’s own report', () => {
    const cost = {
      label: 'run',
      provider: 'agentA',
      inputTokens: 1,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      estimated: false,
    }
    const observed = { ...cost, inputTokens: 2 }
    const reported = { ...cost, source: 'reported' }
    expect(bestCost({ cost }, observed)).toEqual(reported)
    expect(bestCost({ cost, costIsPartial: true }, observed)).toBe(observed)
    expect(bestCost({ cost, costIsPartial: true }, undefined)).toEqual(reported)
    expect(bestCost({}, observed)).toBe(observed)
  })
})
