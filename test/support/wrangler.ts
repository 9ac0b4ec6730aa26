/**
 * A fake `wrangler` that behaves like the real one as far as the service uses it.
 *
 * Without `--remote` it writes to a local folder and reports success, like the real one. A folder holds its state: the
 * login, the contents of the bucket, and every call.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface WranglerState {
  readonly loggedIn?: boolean
  readonly accounts?: readonly { readonly id: string; readonly name: string }[]
  /** Printed instead of a JSON identity. */
  readonly whoami?: string
  /** Whether the version is too old for `--json`. */
  readonly old?: boolean
  readonly buckets?: readonly string[]
  readonly broken?: boolean
  readonly hangs?: boolean
  /** Whether the login fails, as when wrangler requires a newer Node. */
  readonly refusesLogin?: boolean
  /** Whether wrangler accepts `--remote` and ignores it. */
  readonly ignoresRemote?: boolean
}

export interface WranglerCall {
  readonly args: readonly string[]
  readonly cwd: string
  readonly files: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly pid: number
}

export interface FakeWrangler {
  /** The folder for PATH. */
  readonly bin: string
  setState(world: WranglerState): void
  calls(): readonly WranglerCall[]
  /** Returns the bytes and the content type of an object in the bucket. */
  remoteObject(bucket: string, key: string): { readonly bytes: Buffer; readonly type: string } | undefined
  /** Confirms a pending login. */
  confirmLogin(): void
}

export function createFakeWrangler(folder: string, world: WranglerState = {}): FakeWrangler {
  const bin = join(folder, 'bin')
  const state = join(folder, 'world.json')
  mkdirSync(bin, { recursive: true })
  const script = join(bin, 'wrangler')
  writeFileSync(script, `#!${process.execPath}\n${program(folder)}`)
  chmodSync(script, 0o755)
  const set = (next: WranglerState) => writeFileSync(state, JSON.stringify(next))
  set(world)
  return {
    bin,
    setState: set,
    calls: () => {
      const file = join(folder, 'calls.jsonl')
      if (!existsSync(file)) return []
      // The file may be read while it is written, so an unfinished last line is ignored.
      const whole = readFileSync(file, 'utf8').split('\n').slice(0, -1)
      return whole.map((line) => JSON.parse(line) as WranglerCall)
    },
    remoteObject: (bucket, key) => {
      const file = join(folder, 'remote', bucket, key)
      if (!existsSync(file)) return undefined
      return { bytes: readFileSync(file), type: readFileSync(`${file}.type`, 'utf8') }
    },
    confirmLogin: () => writeFileSync(join(folder, 'confirmed'), ''),
  }
}

/** The program is CommonJS, because the file has no extension and no package.json. */
const program = (folder: string): string => `
const fs = require('node:fs')
const path = require('node:path')
const folder = ${JSON.stringify(folder)}
const stateFile = path.join(folder, 'world.json')
const world = JSON.parse(fs.readFileSync(stateFile, 'utf8'))
const args = process.argv.slice(2)
const call = { args, cwd: process.cwd(), files: fs.readdirSync('.'), env: process.env, pid: process.pid }
fs.appendFileSync(path.join(folder, 'calls.jsonl'), JSON.stringify(call) + '\\n')
const say = (text) => process.stdout.write(text + '\\n')
const fail = (text) => { process.stderr.write('\\u2718 [ERROR] ' + text + '\\n'); process.exit(1) }
const after = (name) => args[args.indexOf(name) + 1]
if (world.hangs) setInterval(() => {}, 1000)
else if (args[0] === '--version') world.broken ? fail('broken') : say('4.86.0')
else if (args[0] === 'whoami') whoami()
else if (args[0] === 'login') login()
else if (args.slice(0, 3).join(' ') === 'r2 object put') put(args[3])
else fail('Unknown argument: ' + args[0])

function whoami() {
  const token = process.env.CLOUDFLARE_API_TOKEN
  if (token !== undefined) {
    const loggedIn = token !== 'bad-token-bad-token'
    say(JSON.stringify(loggedIn ? { loggedIn, authType: 'User API Token', accounts: [{ id: '4567', name: 'Token Account' }] } : { loggedIn }))
    process.exit(loggedIn ? 0 : 1)
  }
  if (world.old && args.includes('--json')) return fail('Unknown argument: json')
  if (world.whoami !== undefined) { say(world.whoami); process.exit(args.includes('--json') ? 1 : 0) }
  if (!args.includes('--json')) {
    return say(world.loggedIn ? "You are logged in with an OAuth Token, associated with the email 'dev@example.test'!" : 'You are not authenticated. Please run \`wrangler login\`.')
  }
  if (!world.loggedIn) { say('{"loggedIn":false}'); process.exit(1) }
  say(JSON.stringify({ loggedIn: true, authType: 'OAuth Token', email: 'dev@example.test', accounts: world.accounts ?? [{ id: '0123', name: 'Dev Account' }] }, null, 2))
}

function login() {
  if (world.refusesLogin) return fail('Wrangler requires at least Node.js v22.12.0.')
  say('Attempting to login via OAuth...')
  say('Visit this link to authenticate: https://dash.cloudflare.com/oauth2/auth?response_type=code&client_id=1&state=s')
  const wait = setInterval(() => {
    if (!fs.existsSync(path.join(folder, 'confirmed'))) return
    clearInterval(wait)
    fs.writeFileSync(stateFile, JSON.stringify({ ...world, loggedIn: true }))
    say('Successfully logged in.')
  }, 20)
}

function put(place) {
  const remote = args.includes('--remote') && !world.ignoresRemote
  const [bucket, ...rest] = place.split('/')
  if (remote && !world.loggedIn && !process.env.CLOUDFLARE_API_TOKEN) {
    return fail("In a non-interactive environment, it's necessary to set a CLOUDFLARE_API_TOKEN environment variable for wrangler to work.")
  }
  if (remote && process.env.CLOUDFLARE_API_TOKEN === 'bad-token-bad-token') return fail('Failed for bad-token-bad-token')
  if (remote && !(world.buckets ?? ['shots']).includes(bucket)) return fail('The specified bucket does not exist. [code: 10006]')
  say('Resource location: ' + (remote ? 'remote' : 'local'))
  say('Creating object "' + rest.join('/') + '" in bucket "' + bucket + '".')
  const target = path.join(folder, remote ? 'remote' : 'local', bucket, ...rest)
  fs.mkdirSync(path.dirname(target), { recursive: true })
  const file = after('--file')
  fs.writeFileSync(target + '.mode', String(fs.statSync(file).mode & 0o777))
  fs.copyFileSync(file, target)
  fs.writeFileSync(target + '.type', after('--content-type'))
  say('Upload complete.')
}
`
