/** What a person's sessions in the sandbox of a run have used, as it is told when the sandbox is closed. */
import { chownSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { Hands } from '../../../worker/hands.ts'
import { removeOwned } from '../../../worker/sandbox/folders.ts'
import { booted, executed, handsIn, RUN, seat } from '../../support/booted.ts'

let folder = ''
let hands: Hands

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'switchyard-booted-usage-'))
  hands = await handsIn(folder)
})
afterEach(async () => {
  await hands.discard(RUN)
  await hands.close()
  await removeOwned(folder)
})

/** Another session's transcript, as agentA begins one when it is cleared. */
function another(name: string, at: Date): void {
  const projects = join(folder, 'sandboxes', RUN, 'home', '.claude', 'projects')
  const [project = ''] = readdirSync(projects)
  const usage = { input_tokens: 7, output_tokens: 1 }
  const message = { id: `msg_${name}`, model: 'claude-sonnet-4-5', usage }
  const line = { type: 'assistant', timestamp: at.toISOString(), requestId: 'req_1', message }
  const path = join(projects, project, `${name}.jsonl`)
  writeFileSync(path, `${JSON.stringify(line)}\n`)
  const { uid, gid } = statSync(projects)
  chownSync(path, uid, gid)
}

test('what a person uses in other sessions is told with that of the run, what the run used in others is not', async () => {
  await executed(hands)
  another('before', new Date(Date.now() - 60_000))
  const person = seat(await booted(hands))
  await person.sees('> ')
  another('after', new Date())
  const [own, ...more] = await person.booted.close()
  expect(more).toEqual([])
  const ids = own?.entries.map(({ id }) => id) ?? []
  expect(ids).toContain('msg_after:req_1')
  expect(ids).not.toContain('msg_before:req_1')
  expect(ids.length).toBeGreaterThan(1)

  // A worker that was killed meanwhile knows no more of it than the disk does.
  await hands.close()
  hands = await handsIn(folder)
  const again = seat(await booted(hands))
  await again.sees('> ')
  const [later] = await again.booted.close()
  expect(later?.entries.map(({ id }) => id)).toContain('msg_after:req_1')
})
