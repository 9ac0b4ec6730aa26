/** Says in words how an attachment ended. */
import type { AttachmentEnd } from '../../../client/attachment.ts'
import { HostRefusal } from '../../../client/errors.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { capitalized, withPeriod } from '../../text/sentences.ts'

export interface EndWords {
  readonly text: string
  readonly isProblem: boolean
}

const SIGNED_OUT = 401

export function endWords(end: AttachmentEnd): EndWords {
  switch (end.is) {
    case 'exited':
      return {
        text: `The session has ended with exit code ${end.code}.`,
        isProblem: end.code !== 0,
      }
    case 'left':
      return { text: 'You have left the terminal.', isProblem: false }
    default:
      return { text: sentence(end.message), isProblem: true }
  }
}

/** The words for an error that ends the attempts to connect. */
export function errorWords(error: unknown): EndWords {
  if (error instanceof HostRefusal && error.status === SIGNED_OUT)
    return {
      text: 'This browser is not signed in any more. Run switchyard dashboard and open the link that it prints.',
      isProblem: true,
    }
  return { text: sentence(messageOf(error)), isProblem: true }
}

export const sentence = (text: string): string => withPeriod(capitalized(text))
