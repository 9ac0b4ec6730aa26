/** `switchyard workers provision` against a real listener: what it sends, and how it prints the steps of the host. */
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { type ProvisionOptions, provision } from '../../../bin/cli/workers/worker-provision.ts'
import { formatStep } from '../../../core/provision/step-lines.ts'
import { no, yes } from '../../../core/result.ts'
import type { ProvisionPush, ProvisionRequest } from '../../../protocol/provision.ts'
import { openCommandHost } from '../../support/command-host.ts'

const step = (name: string, number: number, more: Partial<ProvisionPush> = {}): ProvisionPush => ({
  type: 'provision',
  id: 'ann@forge',
  step: name,
  status: 'done',
  message: `${name} went well`,
  number,
  count: 6,
  ms: 400,
  ...more,
})
const STEPS = [step('connect', 1), step('check', 2), step('copy', 3)]
const lineOf = (push: ProvisionPush) =>
  formatStep({ ...push, status: push.status === 'failed' ? 'failed' : 'done' })

async function openHost(pushed: readonly ProvisionPush[], refusal?: string) {
  const host = await openCommandHost()
  const requests: ProvisionRequest[] = []
  host.hostApi.provisionWorker = async (request) => {
    requests.push(request)
    for (const push of pushed) {
      host.hostApi.push({ ...push, status: 'running', message: '' })
      host.hostApi.push(push)
    }
    if (refusal !== undefined) return no('failed', refusal)
    return yes({ ok: true, output: STEPS.map((each) => `${lineOf(each)}\n`).join('') })
  }
  const run = (options: ProvisionOptions = {}, target = 'ann@forge') =>
    host.print<ProvisionOptions>((context) => provision(context, target), { options })
  return { ...host, requests, runProvision: run }
}

test('each step is a line when it has ended, and the worker is named at the end', async () => {
  const { runProvision } = await openHost([
    ...STEPS,
    step('copy', 3, { id: 'bo@mica', message: 'of another machine' }),
  ])
  const { code, out, err } = await runProvision()
  expect([code, out]).toEqual([0, 'forge is online with 2 slots.\n'])
  expect(err).toBe(STEPS.map((each) => `${lineOf(each)}\n`).join(''))
  expect(err).toContain('1/6 connect  ok    0.4s  connect went well\n')
})

test('steps whose messages were lost are printed from the answer', async () => {
  const { runProvision } = await openHost(STEPS.slice(0, 1))
  expect((await runProvision()).err).toBe(STEPS.map((each) => `${lineOf(each)}\n`).join(''))
})

test('a failed step is printed before the refusal with its cure', async () => {
  const failed = step('check', 2, { status: 'failed', message: 'bwrap: not installed' })
  const { run, runProvision } = await openHost(
    [STEPS[0] ?? failed, failed],
    'forge lacks bwrap\n  try, on forge: a cure',
  )
  await expect(runProvision()).rejects.toThrow('forge lacks bwrap')
  const { code, out, err } = await run('workers', 'provision', 'ann@forge')
  expect([code, out]).toEqual([1, ''])
  expect(err).toBe(
    `${lineOf(STEPS[0] ?? failed)}\n${lineOf(failed)}\nswitchyard: forge lacks bwrap\n  try, on forge: a cure\n`,
  )
})

test('control characters of a machine reach no terminal', async () => {
  const { runProvision } = await openHost([step('check', 2, { message: 'a\u001b[31mred' })])
  expect((await runProvision()).err).not.toContain('\u001b')
})

test('--json is the API’s answer, and -o id the name', async () => {
  const { runProvision } = await openHost(STEPS)
  const { out, err } = await runProvision({ json: true })
  expect([JSON.parse(out), err]).toEqual([{ ok: true, output: expect.stringContaining('3/6 copy') }, ''])
  expect((await runProvision({ output: 'id' })).out).toBe('forge\n')
})

describe('options', () => {
  test('--port, --identity-file, --name, --concurrency and --host-key-sha256 are sent', async () => {
    const { runProvision, requests } = await openHost([])
    await runProvision({
      port: 2222,
      identityFile: 'key',
      name: 'box',
      concurrency: 4,
      hostKeySha256: 'SHA256:x',
    })
    await runProvision({ identityFile: '~/key' }, 'root@192.0.2.7')
    expect(requests).toEqual([
      {
        user: 'ann',
        host: 'forge',
        port: 2222,
        identityFile: resolve('key'),
        name: 'box',
        concurrency: 4,
        hostKeySha256: 'SHA256:x',
      },
      { user: 'root', host: '192.0.2.7', identityFile: `${homedir()}/key` },
    ])
  })

  test.each([['forge'], ['@forge'], ['ann@'], ['']])('%j is wrong use', async (target) => {
    const { runProvision, requests } = await openHost([])
    await expect(runProvision({}, target)).rejects.toMatchObject({ code: 2 })
    expect(requests).toEqual([])
  })
})
