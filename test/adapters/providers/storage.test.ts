/** The bucket, through a fake wrangler that behaves like the real one. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import type { Bucket, UploadRequest } from '../../../core/ports/bucket.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { yes } from '../../../core/result.ts'
import { PROGRAM_MS_MAX } from '../../../protocol/limits.ts'
import { createWranglerBucket, UPLOAD_MS_MAX } from '../../../providers/storage.ts'
import { UPLOAD_BYTES_MAX } from '../../../providers/wrangler-command.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { until } from '../../support/until.ts'
import { createFakeWrangler, type FakeWrangler, type WranglerState } from '../../support/wrangler.ts'

interface BucketBench {
  readonly bucket: Bucket
  readonly wrangler: FakeWrangler
  readonly folder: string
  readonly temp: string
}

const buckets: Bucket[] = []
afterEach(() => {
  for (const bucket of buckets.splice(0)) bucket.stop()
})

function createBucketBench(
  world: WranglerState = {},
  more: Record<string, string> = {},
  clock: Clock = realClock,
  temp = tempFolder(),
): BucketBench {
  const folder = tempFolder()
  const wrangler = createFakeWrangler(folder, world)
  const environment = {
    PATH: `relative:${wrangler.bin}:/usr/bin`,
    HOME: folder,
    SECRET_OF_OURS: 'x',
    ...more,
  }
  const bucket = createWranglerBucket({ environment, clock, log: createRecordingLog(), tempFolder: temp })
  buckets.push(bucket)
  return { bucket, wrangler, folder, temp }
}

function uploadRequest(text: string, more: Partial<UploadRequest> = {}): UploadRequest {
  return {
    bucket: 'shots',
    key: 'run-1/a picture.png',
    contentType: 'image/png',
    size: Buffer.byteLength(text),
    async *read() {
      const bytes = Buffer.from(text)
      yield bytes.subarray(0, 3)
      yield bytes.subarray(3)
    },
    ...more,
  }
}

const refusedAs = (kind: string) => ({ ok: false, refusal: { kind } })

test('without the command, or with a broken one, the bucket is not installed', async () => {
  const environment = { PATH: '/nowhere', HOME: '/nowhere' }
  const parts = { environment, clock: realClock, log: createRecordingLog(), tempFolder: tempFolder() }
  const bucket = createWranglerBucket(parts)
  expect(await bucket.status()).toEqual({ installed: false, loggedIn: false })
  expect(await bucket.login()).toMatchObject(refusedAs('invalid'))
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('invalid'))
  expect(await createBucketBench({ broken: true, loggedIn: true }).bucket.status()).toMatchObject({
    installed: false,
  })
})

test('the status names the account, or else its e-mail address', async () => {
  const { bucket, wrangler } = createBucketBench()
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: false })
  wrangler.setState({ loggedIn: true })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: true, account: 'Dev Account' })
  wrangler.setState({ loggedIn: true, accounts: [] })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: true, account: 'dev@example.test' })
  wrangler.setState({ whoami: 'A request to the Cloudflare API failed' })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: false })
})

test('of several accounts the account that the environment names is used', async () => {
  const accounts = [
    { id: 'a', name: 'First' },
    { id: 'b', name: 'Second\u202e' },
  ]
  const { bucket } = createBucketBench({ loggedIn: true, accounts }, { CLOUDFLARE_ACCOUNT_ID: 'b' })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: true, account: 'Second�' })
})

test('a version without JSON output is read from its text', async () => {
  const { bucket, wrangler } = createBucketBench({ old: true, loggedIn: true })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: true, account: 'dev@example.test' })
  wrangler.setState({ old: true, loggedIn: false })
  expect(await bucket.status()).toEqual({ installed: true, loggedIn: false })
})

test('a token takes the place of the login, in each call, and is checked before it is kept', async () => {
  const { bucket, wrangler } = createBucketBench({}, { CLOUDFLARE_API_KEY: 'of the surroundings' })
  expect(await bucket.check('good-token-good-token')).toEqual(yes('Token Account'))
  const refused = await bucket.check('bad-token-bad-token')
  expect(refused).toMatchObject(refusedAs('unauthorized'))
  const token = 'good-token-good-token'
  expect(await Promise.all([bucket.status(), bucket.status(token)])).toEqual([
    { installed: true, loggedIn: false },
    { installed: true, loggedIn: true, account: 'Token Account' },
  ])
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('unauthorized'))
  expect(await bucket.upload(uploadRequest('abc', { token }))).toEqual(yes(undefined))
  expect(wrangler.calls().at(-1)?.env).not.toHaveProperty('CLOUDFLARE_API_KEY')
  expect(JSON.stringify(await bucket.upload(uploadRequest('abc', { token: 'bad-token-bad-token' })))).toMatch(
    /Failed for \*\*\*/,
  )
})

test('concurrent status checks share one answer', async () => {
  const { bucket, wrangler } = createBucketBench({ loggedIn: true })
  const states = await Promise.all([bucket.status(), bucket.status(), bucket.status()])
  expect(new Set(states.map((state) => state.account))).toEqual(new Set(['Dev Account']))
  expect(wrangler.calls()).toHaveLength(2)
})

test('an upload goes to the remote bucket, from an empty folder, through a private file', async () => {
  const { bucket, wrangler, folder, temp } = createBucketBench(
    { loggedIn: true },
    { CLOUDFLARE_API_BASE_URL: 'http://127.0.0.1:1' },
  )
  expect(await bucket.upload(uploadRequest('some bytes'))).toEqual({ ok: true, value: undefined })
  expect(wrangler.remoteObject('shots', 'run-1/a picture.png')).toEqual({
    bytes: Buffer.from('some bytes'),
    type: 'image/png',
  })
  expect(readFileSync(join(folder, 'remote', 'shots', 'run-1', 'a picture.png.mode'), 'utf8')).toBe(
    String(0o600),
  )
  const [call] = wrangler.calls()
  expect(call?.args).toContain('--remote')
  expect(call?.files).toEqual([])
  expect(call?.env).toMatchObject({
    CI: '1',
    WRANGLER_SEND_METRICS: 'false',
    CLOUDFLARE_API_BASE_URL: 'http://127.0.0.1:1',
  })
  expect(call?.env.SECRET_OF_OURS).toBeUndefined()
  expect(readdirSync(temp)).toEqual([])
})

test('an impossible upload is refused before a command runs', async () => {
  const { bucket, wrangler } = createBucketBench({ loggedIn: true })
  const never: Partial<UploadRequest>[] = [
    { size: UPLOAD_BYTES_MAX + 1 },
    { key: 'a/../b' },
    { key: '/a' },
    { key: 'a//b' },
    { key: 'x'.repeat(1025) },
    { key: 'a\nb' },
    { bucket: '--pipe' },
    { bucket: '' },
    { contentType: 'image/png\r\nx: y' },
    { contentType: '' },
  ]
  for (const fields of never)
    expect(await bucket.upload(uploadRequest('abc', fields))).toMatchObject(refusedAs('invalid'))
  expect(wrangler.calls()).toEqual([])
})

test('a file of another length, or an unreadable one, leaves no temporary file', async () => {
  const { bucket, wrangler, temp } = createBucketBench({ loggedIn: true })
  expect(await bucket.upload(uploadRequest('abcdef', { size: 4 }))).toMatchObject(refusedAs('invalid'))
  expect(await bucket.upload(uploadRequest('abc', { size: 400 }))).toMatchObject(refusedAs('invalid'))
  const broken = uploadRequest('abc', {
    // biome-ignore lint/correctness/useYield: a reading that fails at once
    async *read() {
      throw new Error('gone')
    },
  })
  expect(await bucket.upload(broken)).toMatchObject(refusedAs('failed'))
  expect(wrangler.calls()).toEqual([])
  expect(readdirSync(temp)).toEqual([])
})

test('the reasons of failed uploads are distinguished', async () => {
  const { bucket, wrangler } = createBucketBench({ loggedIn: false })
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('unauthorized'))
  wrangler.setState({ loggedIn: true, buckets: [] })
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('invalid'))
  const withBadToken = createBucketBench({}, { CLOUDFLARE_API_TOKEN: 'bad-token-bad-token' })
  const failed = await withBadToken.bucket.upload(uploadRequest('abc'))
  expect(failed).toMatchObject(refusedAs('failed'))
  expect(JSON.stringify(failed)).not.toContain('bad-token')
})

test('a command that hangs is killed at the timeout, and the next upload runs', async () => {
  const late: (() => void)[] = []
  const patient = {
    ...realClock,
    after: (ms: number, run: () => void) =>
      ms === UPLOAD_MS_MAX || ms === PROGRAM_MS_MAX ? held(late, run) : realClock.after(ms, run),
  }
  const { bucket, wrangler, temp } = createBucketBench({ loggedIn: true, hangs: true }, {}, patient)
  const first = bucket.upload(uploadRequest('abc'))
  await until('it to hang', () => wrangler.calls().length === 1)
  wrangler.setState({ loggedIn: true })
  const second = bucket.upload(uploadRequest('second', { key: 'b' }))
  late.shift()?.()
  expect(await first).toMatchObject(refusedAs('unavailable'))
  expect(await second).toMatchObject({ ok: true })
  await until('it to be gone', () => !isAlive(wrangler.calls()[0]?.pid ?? 0))
  wrangler.setState({ loggedIn: true, hangs: true })
  const state = bucket.status()
  await until('both questions to hang', () => wrangler.calls().length === 4)
  for (const run of late) run()
  expect(await state).toEqual({ installed: false, loggedIn: false })
  expect(readdirSync(temp)).toEqual([])
})

test('temporary files of a killed process are removed at the next start', async () => {
  const killed = createBucketBench({ loggedIn: true, hangs: true })
  void killed.bucket.upload(uploadRequest('abc'))
  await until('it to hang', () => killed.wrangler.calls().length === 1)
  expect(readdirSync(killed.temp)).toHaveLength(1)
  const next = createBucketBench({ loggedIn: true }, {}, realClock, killed.temp)
  expect(await next.bucket.upload(uploadRequest('abc'))).toMatchObject({ ok: true })
  expect(readdirSync(killed.temp)).toEqual([])
})

test('a success without the remote location is a failure', async () => {
  const { bucket, wrangler } = createBucketBench({ loggedIn: true, ignoresRemote: true })
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('failed'))
  expect(wrangler.remoteObject('shots', 'run-1/a picture.png')).toBeUndefined()
})

test('a login is started once, shows its page, and ends when the person confirms', async () => {
  const { bucket, wrangler } = createBucketBench()
  const started = await Promise.all([bucket.login(), bucket.login()])
  for (const login of started) {
    expect(login).toMatchObject({
      ok: true,
      value: expect.stringContaining('https://dash.cloudflare.com/oauth2/auth?'),
    })
  }
  const logins = () => wrangler.calls().filter(({ args }) => args[0] === 'login')
  expect(logins()).toHaveLength(1)
  expect(logins()[0]?.env.CI).toBeUndefined()
  expect(logins()[0]?.files).toEqual([])
  wrangler.confirmLogin()
  await until('the login to be over', async () => (await bucket.status()).loggedIn)
})

test('a login that ends at once returns the reason', async () => {
  const { bucket } = createBucketBench({ refusesLogin: true })
  expect(await bucket.login()).toMatchObject({
    ok: false,
    refusal: { kind: 'failed', message: expect.stringContaining('Node.js v22') },
  })
})

test('stopping kills a waiting login, and no command starts later', async () => {
  const { bucket, wrangler, temp } = createBucketBench()
  await bucket.login()
  const pid = wrangler.calls().at(-1)?.pid ?? 0
  bucket.stop()
  await until('the login to be gone', () => !isAlive(pid))
  expect(await bucket.login()).toMatchObject(refusedAs('unavailable'))
  expect(await bucket.upload(uploadRequest('abc'))).toMatchObject(refusedAs('unavailable'))
  await until('its folder to be gone', () => readdirSync(temp).length === 0)
})

/** Collects callbacks for the test to call. */
function held(runs: (() => void)[], run: () => void): () => void {
  runs.push(run)
  return () => {}
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
