/**
 * Texts of an agent that would act on a terminal, or read differently from what they are, are clean for every reader:
 * a real host, worker, sandbox and git, with the scripted agent.
 */
import { beforeAll, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { keepForFile } from '../support/command-process.ts'
import { LocalSystem } from '../support/local-system.ts'

const TEST_MS_MAX = 120_000

/** Characters that a terminal interprets, or that change the writing direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const RAW = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/
const HOSTILE = '\u001b[2J\u001b]0;title\u0007red\u202egnp.exe\u2067\u061c \u009b31m'
const CLEAN = 'red\\u202egnp.exe\\u2067\\u061c'
/** The same for printf of a shell. */
const PRINTED = '\\033[2J\\033]0;title\\007red\\342\\200\\256gnp.exe\\342\\201\\247\\330\\234 \\302\\23331m'

let system: LocalSystem

beforeAll(async () => {
  const setup = `printf '${PRINTED}\\n'; printf '${PRINTED}\\n' >&2`
  system = await LocalSystem.open({ local: true, repos: { plain: { remote: 'acme/plain', setup } } })
  keepForFile(system.host)
  await system.waitForOnlineWorkers(1)
}, TEST_MS_MAX)

/** Every text in the value, keys included. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...textsIn(inner)])
}

/** A ticket is a person's text. */
const ofAgent = ({ ticket: _, ...rest }: Run) => rest

const rawTextsIn = (value: unknown): string[] => textsIn(value).filter((text) => RAW.test(text))

test(
  'events, log, summary, pull request and commit of a run hold none of them',
  async () => {
    system.writeTicket('ENG-1', [
      `say first${HOSTILE}`,
      `run printf '${PRINTED}' | tee raw.txt $SWITCHYARD_ARTIFACTS/raw.txt`,
      `run printf 'one\\ttwo\\nthree'`,
      `commit Add ${HOSTILE}`,
      `say last ${HOSTILE}`,
    ])
    const run = await system.waitForEnd('ENG-1', TEST_MS_MAX)
    expect([run.status, run.error]).toEqual(['completed', undefined])
    const events = await system.events(run)
    const texts = textsIn(events)
    expect(rawTextsIn(events)).toEqual([])
    for (const type of ['log', 'agent'])
      expect(textsIn(events.filter((event) => event.type === type)).join('\n')).toContain(CLEAN)
    expect(texts.join('\n')).toContain('one\ttwo\nthree')
    expect(rawTextsIn(ofAgent(run))).toEqual([])
    expect(run.result?.summary).toContain(`last ${CLEAN}`)

    const [pull] = system.pulls('plain')
    expect(rawTextsIn(pull)).toEqual([])
    expect(pull?.body).toContain(`last ${CLEAN}`)
    expect(rawTextsIn(system.git('plain', 'log', '-1', '--format=%B', run.result?.branch ?? ''))).toEqual([])

    // Files of the agent are not texts of the service: they stay as they are.
    const { url, token } = await system.host.waitForLaunch()
    const answer = await fetch(`${url}/api/runs/${run.id}/artifacts/raw.txt`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(await answer.text()).toBe(HOSTILE)
  },
  TEST_MS_MAX,
)

test(
  'neither does the reason of a failed run',
  async () => {
    system.writeTicket('ENG-2', [`fail broken ${HOSTILE}`])
    const run = await system.waitForEnd('ENG-2', TEST_MS_MAX)
    expect(run.status).toBe('failed')
    expect(run.error).toContain('broken red')
    expect(rawTextsIn([ofAgent(run), await system.events(run)])).toEqual([])
  },
  TEST_MS_MAX,
)
