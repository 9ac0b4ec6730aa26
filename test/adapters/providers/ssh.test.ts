/** The SSH provider against a server in this process: whose keys it trusts, which keys it shows, and what it endures. */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import ssh2 from 'ssh2'
import { realClock } from '../../../bin/process/clock.ts'
import type { RemoteShell, RemoteTarget } from '../../../core/ports/machines.ts'
import { keyFingerprint } from '../../../core/provision/known-hosts.ts'
import { remoteCommandLine, remoteInput } from '../../../core/provision/target.ts'
import type { Result } from '../../../core/result.ts'
import { createSsh } from '../../../providers/ssh.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, createSettableClock } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const folder = tempFolder()
const makeKey = (name: string, type: string, passphrase = '') => {
  const path = join(folder, name)
  execFileSync('ssh-keygen', ['-q', '-t', type, '-N', passphrase, '-m', 'PEM', '-f', path])
  const [kind = '', key = ''] = readFileSync(`${path}.pub`, 'utf8').split(' ')
  return {
    path,
    kind,
    key,
    text: readFileSync(path),
    line: `${kind} ${key}`,
    bytes: Buffer.from(key, 'base64'),
  }
}
const hostKey = makeKey('host', 'ed25519')
const hostRsa = makeKey('host-rsa', 'rsa')
const mine = makeKey('mine', 'ed25519')
const foreign = makeKey('foreign', 'ed25519')
const encrypted = makeKey('encrypted', 'ed25519', 'a passphrase')

type Exec = (command: string, channel: ssh2.ServerChannel) => void
const stayQuiet: Exec = () => {}

async function openServer(exec: Exec = stayQuiet) {
  const tries: string[] = []
  const clients: ssh2.Connection[] = []
  const server = new ssh2.Server({ hostKeys: [hostKey.text, hostRsa.text] }, (client) => {
    clients.push(client)
    client.on('error', () => {})
    client.on('authentication', (context) => {
      const isMine = context.method === 'publickey' && context.key.data.equals(mine.bytes)
      tries.push(context.method)
      if (isMine && context.username === 'ann') context.accept()
      else context.reject(['publickey'])
    })
    client.on('session', (accept) => {
      accept().on('exec', (acceptExec, _, { command }) => exec(command, acceptExec()))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    for (const client of clients) client.end()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, tries, clients }
}

interface User {
  readonly knownHosts?: (port: number) => string
  readonly environment?: Readonly<Record<string, string>>
}

/** A user with a home folder of its own. */
function sshOf({ knownHosts, environment = {} }: User, port: number, clock = realClock) {
  const home = tempFolder()
  mkdirSync(join(home, '.ssh'))
  if (knownHosts !== undefined) writeFileSync(join(home, '.ssh', 'known_hosts'), knownHosts(port))
  return createSsh({ clock, environment, home, uid: process.geteuid?.() ?? 0 })
}

const known = (port: number) => `[127.0.0.1]:${port} ${hostKey.line}\n`

async function connect(user: User, more: Partial<RemoteTarget> = {}, exec?: Exec) {
  const server = await openServer(exec)
  const target = { host: '127.0.0.1', port: server.port, user: 'ann', identityFile: mine.path, ...more }
  const connected = await sshOf(user, server.port).connect(target)
  if (connected.ok) closeAfterTest(() => connected.value.close())
  return { ...server, connected }
}

const refusalOf = ({ connected }: { readonly connected: Result<RemoteShell> }) =>
  connected.ok ? undefined : connected.refusal

async function openShell(exec: Exec) {
  const { connected, clients } = await connect({ knownHosts: known }, {}, exec)
  if (!connected.ok) throw new Error(connected.refusal.message)
  return { shell: connected.value, clients }
}

describe('the key of the machine', () => {
  test('is trusted when known_hosts names it', async () => {
    const { connected } = await connect({ knownHosts: known })
    expect(connected).toMatchObject({
      ok: true,
      value: {
        hostKey: `ED25519 ${keyFingerprint(hostKey.bytes)}`,
        hostKeyFrom: 'known_hosts',
        localAddress: '127.0.0.1',
      },
    })
  })

  test('is asked for in the type that known_hosts names', async () => {
    const { connected } = await connect({ knownHosts: (port) => `[127.0.0.1]:${port} ${hostRsa.line}\n` })
    expect(connected.ok && connected.value.hostKey).toBe(`RSA ${keyFingerprint(hostRsa.bytes)}`)
  })

  test('is refused when it is unknown, with the command that accepts it', async () => {
    const at = await connect({}, { identityFile: mine.path })
    const fingerprint = keyFingerprint(hostKey.bytes)
    expect(refusalOf(at)?.kind).toBe('conflict')
    expect(refusalOf(at)?.message).toContain(`ED25519 ${fingerprint}`)
    expect(refusalOf(at)?.message.split('then: ')[1]).toBe(
      `switchyard workers provision ann@127.0.0.1 --port ${at.port} --identity-file ${mine.path} --host-key-sha256 ${fingerprint}`,
    )
    expect(at.tries).toEqual([])
  })

  test('is refused when it has changed, before anything is shown to the machine', async () => {
    const at = await connect({ knownHosts: (port) => `[127.0.0.1]:${port} ${foreign.line}\n` })
    expect(refusalOf(at)?.kind).toBe('conflict')
    expect(refusalOf(at)?.message).toMatch(
      /HAS CHANGED .*known_hosts.*ssh-keygen -R '\[127\.0\.0\.1\]:\d+'$/s,
    )
    expect(at.tries).toEqual([])
  })

  test('is refused when it is revoked, also when its fingerprint is given', async () => {
    const knownHosts = (port: number) => `${known(port)}@revoked * ${hostKey.line}\n`
    const at = await connect({ knownHosts }, { hostKeySha256: keyFingerprint(hostKey.bytes) })
    expect(refusalOf(at)?.message).toContain('revoked')
  })

  test('is trusted by its fingerprint, and by no other', async () => {
    const right = await connect({}, { hostKeySha256: keyFingerprint(hostKey.bytes) })
    expect(right.connected).toMatchObject({ ok: true, value: { hostKeyFrom: 'hostKeySha256' } })
    const wrong = await connect({ knownHosts: known }, { hostKeySha256: keyFingerprint(foreign.bytes) })
    expect(refusalOf(wrong)).toMatchObject({
      kind: 'conflict',
      message: expect.stringMatching(/^\/hostKeySha256: /),
    })
    expect(wrong.tries).toEqual([])
  })
})

describe('a key file is refused with its field', () => {
  const inFolder = (name: string, text: string | Buffer, mode = 0o600) => {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), mode)
    return join(folder, name)
  }

  test.each<[string, () => string, string]>([
    ['that is not there', () => join(folder, 'none'), 'ENOENT'],
    ['that is a folder', () => folder, 'it is no file'],
    ['that others may read', () => inFolder('open', mine.text, 0o640), 'chmod 600'],
    ['that is encrypted', () => encrypted.path, 'ssh-add'],
    ['that is a public key', () => inFolder('public', mine.line), 'no private key'],
    ['that is something else', () => inFolder('text', 'a text\n'), 'no private key'],
  ])('%s', async (_, path, part) => {
    const at = await connect({ knownHosts: known }, { identityFile: path() })
    expect(refusalOf(at)).toMatchObject({
      kind: 'invalid',
      message: expect.stringMatching(/^\/identityFile: /),
    })
    expect(refusalOf(at)?.message).toContain(part)
    expect(refusalOf(at)?.message).not.toContain(mine.text.toString().split('\n')[1])
    expect(at.tries).toEqual([])
  })

  test('that the machine does not accept', async () => {
    const at = await connect({ knownHosts: known }, { identityFile: foreign.path })
    expect(refusalOf(at)).toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('ssh-copy-id -i'),
    })
  })
})

describe('the SSH agent', () => {
  const withAgent = async (...keys: readonly string[]) => {
    const socket = join(tempFolder(), 'agent')
    const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' })
    closeAfterTest(() => agent.kill('SIGKILL'))
    const environment = { SSH_AUTH_SOCK: socket }
    const add = () => {
      try {
        for (const key of keys) execFileSync('ssh-add', ['-q', key], { env: environment, stdio: 'ignore' })
        return true
      } catch {
        return false
      }
    }
    await until('the agent has its keys', add)
    const { port } = await openServer()
    const ssh = sshOf({ knownHosts: known, environment }, port)
    const connected = await ssh.connect({ host: '127.0.0.1', port, user: 'ann' })
    if (connected.ok) closeAfterTest(() => connected.value.close())
    return connected
  }

  test('is asked when no file is named', async () => {
    expect((await withAgent(foreign.path, mine.path)).ok).toBe(true)
  })

  test('without the right key is named', async () => {
    const connected = await withAgent(foreign.path)
    expect(connected.ok || connected.refusal.message).toContain('ssh-add -l')
  })

  test('that is not there is refused with the field', async () => {
    const { port } = await openServer()
    const target = { host: '127.0.0.1', port, user: 'ann' }
    const connected = await sshOf({ knownHosts: known }, port).connect(target)
    expect(connected).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    const away = sshOf({ knownHosts: known, environment: { SSH_AUTH_SOCK: join(folder, 'no-agent') } }, port)
    expect(await away.connect(target)).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
  })
})

test('a server that says nothing is given up after a bounded time', async () => {
  const silent = createServer(() => {})
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => silent.close())
  const { port } = silent.address() as AddressInfo
  const clock = createSettableClock()
  const connecting = sshOf({}, port, clock).connect({
    host: '127.0.0.1',
    port,
    user: 'ann',
    identityFile: mine.path,
  })
  await until('both limits are set', () => {
    clock.wind(100)
    return clock.timerCount() > 0
  })
  let connected: Awaited<typeof connecting> | undefined
  void connecting.then((result) => {
    connected = result
  })
  await until('the limit has passed', () => {
    clock.wind(1_000)
    return connected !== undefined
  })
  expect(connected).toMatchObject({ ok: false, refusal: { kind: 'failed' } })
})

test('a port without a server is named', async () => {
  const { connected } = await connect({}, { port: 1 })
  expect(connected).toMatchObject({
    ok: false,
    refusal: { kind: 'failed', message: expect.stringContaining('ECONNREFUSED') },
  })
})

describe('a command', () => {
  const command = { script: 'echo', values: ['a', 'b\nc'], msMax: 10_000 }

  test('has a constant line; its values and its payload are its input', async () => {
    let line = ''
    let input = ''
    const { shell } = await openShell((given, channel) => {
      line = given
      channel.on('data', (bytes: Buffer) => {
        input += bytes.toString()
      })
      channel.on('end', () => {
        channel.write('out')
        channel.stderr.write('err')
        channel.exit(3)
        channel.end()
      })
    })
    const payload = {
      async *read() {
        yield Buffer.from('some ')
        yield Buffer.from('bytes')
      },
    }
    const ran = await shell.run({ ...command, payload })
    expect(ran).toEqual({ ok: true, value: { code: 3, out: 'out', err: 'err' } })
    expect(line).toBe(remoteCommandLine(command))
    expect(line).not.toMatch(/[\n\\]/)
    expect(input).toBe(`${remoteInput(command)}some bytes`)
  })

  test.each<[string, Exec, string]>([
    ['that never ends', stayQuiet, 'no answer within'],
    [
      'that writes without an end',
      (_, channel) => void setInterval(() => channel.write(Buffer.alloc(16_384)), 1).unref(),
      'wrote more than 64 KiB',
    ],
    [
      'whose errors have no end',
      (_, channel) => void setInterval(() => channel.stderr.write(Buffer.alloc(16_384)), 1).unref(),
      'wrote more than 64 KiB',
    ],
  ])('%s is given up', async (_, exec, message) => {
    const { shell } = await openShell(exec)
    const ran = await shell.run({ ...command, msMax: 1_000 })
    expect(ran).toMatchObject({
      ok: false,
      refusal: { kind: 'failed', message: expect.stringContaining(message) },
    })
  })

  test('whose connection is lost is refused, and so is the next', async () => {
    const { shell, clients } = await openShell(() => {
      for (const client of clients) client.end()
    })
    const lost = { ok: false, refusal: { kind: 'unavailable', message: 'the connection was lost' } }
    expect(await shell.run(command)).toEqual(lost)
    expect(await shell.run(command)).toEqual(lost)
  })
})
