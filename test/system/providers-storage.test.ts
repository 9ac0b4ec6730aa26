/**
 * Artifacts of a run are uploaded by the configured command and linked in the pull request exactly once, even if the
 * host dies in between.
 */
import { expect, test } from '@jest/globals'
import type { StorageStatus } from '../../protocol/connect.ts'
import type { Run } from '../../protocol/run.ts'
import { STORY_WAIT_MS } from '../support/dashboard-client.ts'
import { Watching } from '../support/fault-matcher.ts'
import { tempFolder, until } from '../support/real-files.ts'
import { Crossing } from '../support/system-with-providers.ts'
import { type StubWrangler, stubWrangler } from '../support/wrangler.ts'

const TEST_MS_MAX = 300_000
const TOKEN = 'gho_of_mona'
const WORK = ['write a.txt', '  a', 'artifact report.md', '  # All is well', 'commit A']
const COMMENTING = '^POST /repos/acme/app/issues/\\d+/comments$'
/** The delay of a response during which the host is killed. */
const LATE_MS = 500

async function withBucket(): Promise<{ crossing: Crossing; wrangler: StubWrangler }> {
  const wrangler = stubWrangler(tempFolder(), { loggedIn: true })
  const crossing = await Crossing.open({
    storage: { bucket: 'shots', publicBaseUrl: 'https://shots.example/' },
    codehost: { token: TOKEN },
    env: { PATH: `${wrangler.bin}:${process.env.PATH}` },
  })
  crossing.github.addToken('mona', TOKEN)
  await crossing.send('PUT', '/api/settings/credentials', { trackerApiKey: crossing.linear.apiKey })
  return { crossing, wrangler }
}

const numberOf = ({ prUrl = '' }: Run): number => Number(prUrl.split('/').at(-1))
const commentsOf = ({ github }: Crossing, number: number): readonly string[] =>
  github.issue('acme/app', number).comments.map(({ body }) => body)
const uploads = (wrangler: StubWrangler): number =>
  wrangler.calls().filter(({ args }) => args.includes('put')).length

/** The links of a comment as paths in the bucket. */
function keyIn(comment: string): string {
  const key = /\]\(https:\/\/shots\.example\/([^)]+)\)/.exec(comment)?.[1]
  if (key === undefined) throw new Error(`no link in ${comment}`)
  return key
}

async function isDelivered(crossing: Crossing, wrangler: StubWrangler, run: Run): Promise<void> {
  expect([run.status, run.prState]).toEqual(['completed', 'open'])
  const comments = () => commentsOf(crossing, numberOf(run))
  await until('the comment is there', () => comments().length > 0, STORY_WAIT_MS)
  expect(comments()).toHaveLength(1)
  const shown = wrangler.remote('shots', keyIn(comments()[0] ?? ''))
  expect([shown?.bytes.toString(), shown?.type]).toEqual([
    '# All is well\n',
    expect.stringContaining('text/markdown'),
  ])
}

test(
  'the artifacts are in the bucket and one comment links them, however often the host dies meanwhile',
  async () => {
    const { crossing, wrangler } = await withBucket()
    const { faults, counters } = crossing.github
    const storage = await crossing.get<StorageStatus>('/api/connect/storage')
    expect(storage).toMatchObject({ installed: true, loggedIn: true, account: 'Dev Account', ready: true })
    const usual = await crossing.ends(crossing.ticket('All is well', WORK))
    await isDelivered(crossing, wrangler, usual)

    // Kill the host between the upload and the comment.
    Object.assign(faults, { matching: new RegExp(COMMENTING), reset: true })
    const uploaded = crossing.ticket('Uploaded', WORK)
    await until('a comment broke off', () => counters.route('POST reset').requests > 0, STORY_WAIT_MS)
    await crossing.killHost()
    Object.assign(faults, { matching: undefined, reset: false })
    await crossing.startHost()
    await isDelivered(crossing, wrangler, await crossing.ends(uploaded))

    // Kill the host between the comment and its response.
    const arrived = new Promise<void>((resolve) => {
      Object.assign(faults, { matching: new Watching(COMMENTING, resolve), latencyMs: LATE_MS })
    })
    const commented = crossing.ticket('Commented', WORK)
    await arrived
    await crossing.killHost()
    const before = uploads(wrangler)
    await until('the comment is made all the same', () => commentsOf(crossing, 3).length > 0, STORY_WAIT_MS)
    Object.assign(faults, { matching: undefined, latencyMs: 0 })
    await crossing.startHost()
    // The next start finds the comment first: when a second run's comment exists, this one is complete.
    await isDelivered(crossing, wrangler, await crossing.ends(crossing.ticket('Afterwards', WORK)))
    await isDelivered(crossing, wrangler, await crossing.ends(commented))
    expect(uploads(wrangler)).toBe(before + 1)
  },
  TEST_MS_MAX,
)
