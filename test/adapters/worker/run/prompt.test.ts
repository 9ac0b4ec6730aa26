/** The prompt of a new run: its parts, their order, and the words of the operator. */
import { expect, test } from '@jest/globals'
import { buildPrompt } from '../../../../worker/run/prompt.ts'
import { aJob } from '../git/git-fixture.ts'

const job = aJob()
const promptWith = (instructions?: string): string =>
  buildPrompt({ ...job, run: { ...job.run, ...(instructions === undefined ? {} : { instructions }) } })

test('the words of the operator stand under a heading of their own, before the ticket', () => {
  const prompt = promptWith('  Use SQLite.\nNo ORM. ')
  expect(prompt).toContain('\n\n# From the operator\nUse SQLite.\nNo ORM.\n\n# Ticket ')
})

test('without words the prompt is as before', () => {
  expect(promptWith()).not.toContain('operator')
  expect(promptWith(' ')).toBe(promptWith())
})
