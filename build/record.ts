/**
 * `npm run record [-- NAME…]`: records sessions in real terminals and writes them to docs/recordings. Review the
 * difference before you commit it.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { recordingPath, recordSession, usualTerminal } from './recording/record-session.ts'
import { SESSIONS } from './recording/sessions.ts'

const root = process.cwd()
const names = process.argv.slice(2)
const unknown = names.filter((name) => !SESSIONS.some((session) => session.name === name))
if (unknown.length > 0) {
  console.error(
    `record: no session is called ${unknown.join(', ')}; build/recording/sessions.ts has ${SESSIONS.map(({ name }) => name).join(', ')}`,
  )
  process.exit(2)
}

for (const session of SESSIONS.filter(({ name }) => names.length === 0 || names.includes(name)))
  for (const columns of session.columns) {
    const path = recordingPath(root, session, columns)
    const recording = await recordSession(session, columns, root)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, recording)
    console.log(`${path} (${usualTerminal()})`)
  }
