/** The usage of a person's sessions in a resumed sandbox, as reported when the sandbox is closed. */
import { chownSync, mkdirSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { ClosableExecutor } from '../../../../worker/executor.ts'
import { removeFolderTree } from '../../../../worker/sandbox/folders.ts'
import {
  bootSandbox,
  executeJob,
  openTerminal,
  openTestExecutor,
  RUN,
} from '../../../support/resumed-sandbox.ts'

let folder = ''
let executor: ClosableExecutor

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'switchyard-booted-usage-'))
  executor = await openTestExecutor(folder)
})
afterEach(async () => {
  await executor.discard(RUN)
  await executor.close()
  await removeFolderTree(folder)
})

function project(): string {
  const projects = join(folder, 'sandboxes', RUN, 'home', '.claude', 'projects')
  const [name = ''] = readdirSync(projects)
  return join(projects, name)
}

/** Writes the transcript of another session, as agentA starts one on /clear; or of a subagent, in its folder. */
function another(name: string, at: Date, below = project()): void {
  const usage = { input_tokens: 7, output_tokens: 1 }
  const message = { id: `msg_${name.replace(/\W/g, '')}`, model: 'claude-sonnet-4-5', usage }
  const line = { type: 'assistant', timestamp: at.toISOString(), requestId: 'req_1', message }
  const path = join(below, `${name}.jsonl`)
  writeFileSync(path, `${JSON.stringify(line)}\n`)
  giveAway(path)
}

function giveAway(path: string): void {
  const { uid, gid } = statSync(project())
  chownSync(path, uid, gid)
}

test('usage of the person’s other sessions is reported with the run’s session, usage of the run’s other sessions is not', async () => {
  await executeJob(executor)
  another('before', new Date(Date.now() - 60_000))
  const person = openTerminal(await bootSandbox(executor))
  await person.waitForText('> ')
  another('after', new Date())
  const [own, ...more] = await person.booted.close()
  expect(more).toEqual([])
  const ids = own?.entries.map(({ id }) => id) ?? []
  expect(ids).toContain('msg_after:req_1')
  expect(ids).not.toContain('msg_before:req_1')
  expect(ids.length).toBeGreaterThan(1)

  // A restarted worker knows only what is on the disk.
  await executor.close()
  executor = await openTestExecutor(folder)
  const again = openTerminal(await bootSandbox(executor))
  await again.waitForText('> ')
  const [later] = await again.booted.close()
  expect(later?.entries.map(({ id }) => id)).toContain('msg_after:req_1')
})

test('subagents without new usage are not reported again, however many there are', async () => {
  await executeJob(executor)
  const [transcript = ''] = readdirSync(project()).filter((name) => name.endsWith('.jsonl'))
  const session = join(project(), transcript.slice(0, -'.jsonl'.length))
  const nested = join(session, 'subagents')
  mkdirSync(nested, { recursive: true })
  giveAway(session)
  giveAway(nested)
  for (let n = 0; n < 300; n++) another(`agent-before${n}`, new Date(Date.now() - 60_000), nested)
  const person = openTerminal(await bootSandbox(executor))
  await person.waitForText('> ')
  another('agent-after', new Date(), nested)
  const snapshots = await person.booted.close()
  expect(snapshots.map(({ subagentId }) => subagentId)).toEqual([undefined, 'after'])
})

test('a person who started another session resumes that one, and all usage counts once', async () => {
  await executeJob(executor)
  const own = readdirSync(project()).find((name) => name.endsWith('.jsonl')) ?? ''
  const first = openTerminal(await bootSandbox(executor))
  await first.waitForText('> ')
  first.session.input('say the first word\r')
  await first.waitForText('\r\nthe first word\r\n')
  first.session.input('/clear\r')
  await first.waitForText('another session')
  first.session.input('say the second word\r')
  await first.waitForText('\r\nthe second word\r\n')
  const before = await first.booted.close()

  // A restarted worker knows only what is on the disk.
  await executor.close()
  executor = await openTestExecutor(folder)
  const second = openTerminal(await bootSandbox(executor))
  await second.waitForText('the second word')
  expect(second.text()).not.toContain('the first word')
  await second.waitForText('> ')
  second.session.input('say the third word\r')
  await second.waitForText('\r\nthe third word\r\n')
  const after = await second.booted.close()
  const entries = (snapshots: typeof before) => snapshots.flatMap((snapshot) => snapshot.entries)
  expect(new Set([...before, ...after].map(({ sessionId }) => `${sessionId}.jsonl`))).toEqual(new Set([own]))
  expect(entries(after)).toHaveLength(entries(before).length + 1)
  expect(new Set(entries(after).map(({ id }) => id)).size).toBe(entries(after).length)
})

test('a new session without a message is not resumed', async () => {
  await executeJob(executor)
  const first = openTerminal(await bootSandbox(executor))
  await first.waitForText('> ')
  first.session.input('say the first word\r')
  await first.waitForText('\r\nthe first word\r\n')
  first.session.input('/clear\r')
  await first.waitForText('another session')
  await first.booted.close()
  const second = openTerminal(await bootSandbox(executor))
  await second.waitForText('the first word')
  await second.booted.close()
})
