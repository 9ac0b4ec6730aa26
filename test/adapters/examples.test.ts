/** Every example is valid: its tickets, its scripts, its configuration. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { readConfig } from '../../core/settings/read.ts'
import { parsePrompt } from '../../examples/scripted-agent/program/script.ts'
import { readTicket } from '../../providers/tracker/local/ticket-file.ts'

const TICKETS = 'examples/scripted-agent'

test.each(readdirSync(TICKETS).filter((name) => name.endsWith('.md')))(
  'the ticket %s can be read, and its block is a script',
  (name) => {
    const at = '2026-01-01T00:00:00.000Z'
    const bytes = readFileSync(`${TICKETS}/${name}`)
    const read = readTicket(bytes, { name, url: `file:///${name}`, createdAt: at, updatedAt: at })
    expect(read).toMatchObject({ ok: true, tracked: { ticket: { state: 'Todo', repo: 'app' } } })
    expect(parsePrompt(bytes.toString())).toMatchObject({ is: 'script' })
  },
)

test('the configuration validates', () => {
  expect(readConfig(readFileSync('examples/configuration/local.json', 'utf8'))).toMatchObject({ ok: true })
})
