/** The worker's identity on real files: what is on disk when, and what a crash or a person may have left there. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { removeFileDurably, replaceFile } from '../../../store/files/atomic.ts'
import { type IdentityOptions, openIdentity, type StoredIdentity } from '../../../worker/identity.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const TOKEN = `wp-${'t'.repeat(43)}`
const NEXT = `wp-${'n'.repeat(43)}`
const credential = { workerId: 'wk-0123456789abcdef', secret: `wc-${'s'.repeat(43)}` }

function place(token?: string) {
  const folder = tempFolder()
  const files = { credentialFile: join(folder, 'credential.json'), tokenFile: join(folder, 'token') }
  if (token !== undefined) writeFileSync(files.tokenFile, `${token}\n`, { mode: 0o600 })
  const log = createRecordingLog()
  const parts: IdentityOptions = {
    ...files,
    host: 'host.example',
    log,
    replaceFile,
    deleteFile: removeFileDurably,
  }
  const open = async (given: Partial<IdentityOptions> = {}): Promise<StoredIdentity> => {
    const opened = await openIdentity({ ...parts, ...given })
    if (!opened.ok) throw new Error(opened.refusal.message)
    return opened.value
  }
  const messages = () => log.lines.map(({ level, message }) => `${level}: ${message}`)
  return { ...files, log, open, messages }
}

describe('a join key', () => {
  const KEY = `wj-${'k'.repeat(43)}`
  const withKey = (text = KEY) => {
    const machine = place()
    const joinKeyFile = join(machine.credentialFile, '..', 'join-key')
    writeFileSync(joinKeyFile, `${text}\n`, { mode: 0o600 })
    return { ...machine, joinKeyFile }
  }

  test('is read at every start, and its file stays', async () => {
    const { open, joinKeyFile, messages } = withKey()
    const identity = await open({ joinKeyFile })
    expect(identity.joinKey).toBe(KEY)
    await identity.saveCredential(credential)
    await identity.deleteCredential()
    expect(readFileSync(joinKeyFile, 'utf8')).toBe(`${KEY}\n`)
    expect((await open({ joinKeyFile })).joinKey).toBe(KEY)
    expect(messages()).toEqual([])
  })

  test('that others can read is accepted with a warning, also behind the link of a container', async () => {
    const { open, joinKeyFile, messages } = withKey()
    chmodSync(joinKeyFile, 0o644)
    const link = `${joinKeyFile}-link`
    symlinkSync(joinKeyFile, link)
    expect((await open({ joinKeyFile: link })).joinKey).toBe(KEY)
    expect(messages()).toEqual([expect.stringContaining('chmod 600')])
  })

  test('lets a worker with a damaged credential enroll again', async () => {
    const { open, joinKeyFile, credentialFile } = withKey()
    writeFileSync(credentialFile, '{')
    expect((await open({ joinKeyFile })).credential()).toBeUndefined()
  })

  test('is refused when its file is missing, or holds something else', async () => {
    const { open, joinKeyFile } = withKey(TOKEN)
    await expect(open({ joinKeyFile })).rejects.toThrow(/--join-key-file: .* holds no join key/)
    unlinkSync(joinKeyFile)
    await expect(open({ joinKeyFile })).rejects.toThrow(`--join-key-file: ${joinKeyFile} does not exist`)
  })
})

describe('a pairing token', () => {
  test('is read at start, and its file is deleted once the credential is on disk', async () => {
    const { open, tokenFile, credentialFile, log } = place(TOKEN)
    const identity = await open()
    expect([identity.pairingToken(), identity.credential()]).toEqual([TOKEN, undefined])
    expect(existsSync(tokenFile)).toBe(true)
    await identity.saveCredential(credential)
    expect([identity.pairingToken(), identity.credential()]).toEqual([undefined, credential])
    expect(existsSync(tokenFile)).toBe(false)
    expect(statSync(credentialFile).mode & 0o777).toBe(0o600)
    expect((await open()).credential()).toEqual(credential)
    expect(JSON.stringify(log.lines)).not.toMatch(/w[pc]-[ts]{20}/)
    expect(readFileSync(credentialFile, 'utf8')).not.toContain(TOKEN)
  })

  test('that an earlier process redeemed but could not delete is deleted at the next start', async () => {
    const { open, tokenFile } = place(TOKEN)
    await (await open()).saveCredential(credential)
    writeFileSync(tokenFile, TOKEN)
    const identity = await open()
    expect([identity.pairingToken(), identity.credential()]).toEqual([undefined, credential])
    expect(existsSync(tokenFile)).toBe(false)
  })

  test('beside a credential is redeemed again', async () => {
    const { open, tokenFile } = place(TOKEN)
    await (await open()).saveCredential(credential)
    writeFileSync(tokenFile, NEXT)
    const identity = await open()
    expect([identity.pairingToken(), identity.credential()]).toEqual([NEXT, credential])
  })

  test('that was replaced meanwhile is not deleted', async () => {
    const { open, tokenFile } = place(TOKEN)
    const identity = await open()
    writeFileSync(tokenFile, NEXT)
    await identity.saveCredential(credential)
    expect(readFileSync(tokenFile, 'utf8')).toBe(NEXT)
  })

  test('that the host refused is not deleted, and the log names its file', async () => {
    const { open, tokenFile, messages } = place(TOKEN)
    const identity = await open()
    await identity.deletePairingToken()
    expect(identity.pairingToken()).toBeUndefined()
    expect(existsSync(tokenFile)).toBe(true)
    expect(messages()).toEqual([expect.stringContaining('refused the pairing token')])
  })

  test('that cannot be deleted does not affect the credential', async () => {
    const { open, messages } = place(TOKEN)
    const identity = await open({
      deleteFile: async () => {
        throw new Error('EPERM: not yours')
      },
    })
    await identity.saveCredential(credential)
    expect(identity.credential()).toEqual(credential)
    expect(messages()).toEqual([expect.stringContaining('delete it by hand')])
  })

  test('whose file is missing is no error for an enrolled worker: it was redeemed before', async () => {
    const { open } = place()
    await (await open({ tokenFile: undefined })).saveCredential(credential)
    const identity = await open()
    expect([identity.pairingToken(), identity.credential()]).toEqual([undefined, credential])
  })

  test('whose file is missing is refused with its path where nothing else proves the worker', async () => {
    const { open, tokenFile } = place()
    await expect(open()).rejects.toThrow(`--token-file: ${tokenFile} does not exist`)
  })

  test('that others can read is accepted with a warning', async () => {
    const { open, tokenFile, messages } = place(TOKEN)
    chmodSync(tokenFile, 0o644)
    expect((await open()).pairingToken()).toBe(TOKEN)
    expect(messages()).toEqual([expect.stringContaining('chmod 600')])
  })

  test.each<[string, (path: string) => void, RegExp]>([
    ['something else', (path) => writeFileSync(path, 'hello'), /holds no pairing token/],
    ['nothing', (path) => writeFileSync(path, ''), /holds no pairing token/],
    ['a credential', (path) => writeFileSync(path, credential.secret), /holds no pairing token/],
    ['a whole disk', (path) => writeFileSync(path, 'x'.repeat(10_000)), /longer than/],
    ['a folder', (path) => mkdirSync(path), /no plain file|EISDIR/],
    ['a link', (path) => symlinkSync('/etc/hostname', path), /a link/],
    ['a device', (path) => symlinkSync('/dev/zero', path), /a link/],
  ])('is not %s', async (_what, put, fault) => {
    const { open, tokenFile } = place()
    put(tokenFile)
    await expect(open()).rejects.toThrow(fault)
  })

  test('in a pipe does not block the start', async () => {
    const { execFileSync } = await import('node:child_process')
    const { open, tokenFile } = place()
    execFileSync('mkfifo', [tokenFile])
    await expect(open()).rejects.toThrow(/no plain file/)
  })
})

describe('a credential', () => {
  test('that is being written when the worker ends is written completely', async () => {
    const { open, credentialFile } = place(TOKEN)
    const opened = await open()
    void opened.saveCredential(credential)
    await opened.waitUntilSettled()
    expect(existsSync(credentialFile)).toBe(true)
    void opened.saveCredential(credential)
    void opened.deleteCredential()
    await opened.waitUntilSettled()
    expect([existsSync(credentialFile), opened.credential()]).toEqual([false, undefined])
  })

  test('that is still being written is used already, and its token no longer', async () => {
    const { open } = place(TOKEN)
    let finishWrite = () => {}
    const written = new Promise<void>((resolve) => {
      finishWrite = resolve
    })
    const identity = await open({ replaceFile: () => written })
    const kept = identity.saveCredential(credential)
    expect([identity.pairingToken(), identity.credential()]).toEqual([undefined, credential])
    finishWrite()
    await kept
    expect([identity.pairingToken(), identity.credential()]).toEqual([undefined, credential])
  })

  test('keeps the installation that its host names, at the enrollment or later', async () => {
    const { open, credentialFile, tokenFile } = place(TOKEN)
    const first = await open()
    await first.saveCredential(credential)
    const known = { ...credential, installation: 'in-0123456789abcdef' }
    await first.saveCredential(known)
    writeFileSync(tokenFile, TOKEN)
    const next = await open()
    expect([next.credential(), next.pairingToken()]).toEqual([known, undefined])
    const stored = JSON.parse(readFileSync(credentialFile, 'utf8'))
    writeFileSync(credentialFile, JSON.stringify({ ...stored, installation: 'nonsense' }))
    expect((await open()).credential()).toEqual(credential)
  })

  test('that was dropped is deleted from the disk', async () => {
    const { open, credentialFile } = place(TOKEN)
    const identity = await open()
    await identity.saveCredential(credential)
    await identity.deleteCredential()
    expect(identity.credential()).toBeUndefined()
    expect(existsSync(credentialFile)).toBe(false)
    await identity.deleteCredential()
  })

  test('that could not be written is forgotten, and its token stays', async () => {
    const { open, tokenFile } = place(TOKEN)
    const identity = await open({
      replaceFile: async () => {
        throw new Error('ENOSPC: no room')
      },
    })
    await expect(identity.saveCredential(credential)).rejects.toThrow('ENOSPC')
    expect(identity.credential()).toBeUndefined()
    expect(existsSync(tokenFile)).toBe(true)
  })

  test('that others could read gets mode 0600', async () => {
    const { open, credentialFile } = place(TOKEN)
    await (await open()).saveCredential(credential)
    chmodSync(credentialFile, 0o644)
    await open()
    expect(statSync(credentialFile).mode & 0o777).toBe(0o600)
  })

  test.each<[string, (path: string) => void]>([
    ['is torn', (path) => writeFileSync(path, '{"workerId":"wk-0123')],
    ['is of another form', (path) => writeFileSync(path, '{"workerId":"me","secret":"hello"}')],
    ['is no object', (path) => writeFileSync(path, 'null')],
    ['is a link', (path) => symlinkSync('/etc/hostname', path)],
  ])('that %s is not overwritten, and the refusal says so', async (_what, put) => {
    const { open, credentialFile, tokenFile, messages } = place()
    put(credentialFile)
    await expect(open()).rejects.toThrow(/credential\.json can't be used: .*--token-file/)
    expect(existsSync(credentialFile)).toBe(true)
    writeFileSync(tokenFile, TOKEN, { mode: 0o600 })
    const identity = await open()
    expect(messages()).toEqual([expect.stringContaining('enrolling again')])
    if (_what === 'is a link') unlinkSync(credentialFile)
    await identity.saveCredential(credential)
    expect((await open()).credential()).toEqual(credential)
  })

  test('sent to another host than the one that issued it causes a warning', async () => {
    const { open, messages } = place(TOKEN)
    await (await open()).saveCredential(credential)
    await open({ host: 'other.example' })
    expect(messages()).toEqual([expect.stringContaining('enrolled under another address')])
  })
})
