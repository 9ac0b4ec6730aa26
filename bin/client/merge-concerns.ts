/** Refuses a merge as long as something speaks against it, for the command and for the tool of an agent. */
import type { Client } from '../../client/client.ts'
import { concernsOf } from '../../protocol/pull-concerns.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { EXIT, ExitError } from '../exit.ts'
import { formatPull, type PullName } from './pull-names.ts'

/** @param clean takes away what a terminal or an agent must not receive from others */
export async function refuseConcerns(
  client: Pick<Client, 'readPull'>,
  name: PullName,
  clean: (text: string) => string,
): Promise<void> {
  const concerns = concernsOf(await client.readPull(name))
  if (concerns.length === 0) return
  throw new ExitError(
    EXIT.refused,
    clean(`${formatPull(name)} is not merged: ${concerns.join('; ')}`),
    `switchyard pulls merge ${quoteWord(name.repo)} ${name.number} --anyway`,
  )
}
