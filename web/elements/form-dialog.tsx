/**
 * A form in a dialog: Enter sends it, a refusal keeps it open with the host's words above the buttons.
 *
 * A form that is on its way is not sent again, however often Enter is pressed.
 */

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { messageOf } from '../../protocol/message-of.ts'
import { Button } from './button.tsx'
import { submitBy } from './form.ts'

export interface FormDialogProps {
  readonly title: string
  readonly children: ComponentChildren
  /** The verb and the noun: `Create ticket`. */
  readonly act: string
  readonly busyWord: string
  /** Why it cannot be sent as it is. */
  readonly unavailable?: string | undefined
  readonly send: () => Promise<void>
  readonly close: () => void
}

export function FormDialog({ title, children, act, busyWord, unavailable, send, close }: FormDialogProps) {
  const problem = useSignal<string | undefined>(undefined)
  const isSending = useSignal(false)
  async function submit(): Promise<void> {
    if (unavailable !== undefined || isSending.value) return
    isSending.value = true
    problem.value = undefined
    try {
      await send()
      close()
    } catch (error) {
      problem.value = messageOf(error)
    } finally {
      isSending.value = false
    }
  }
  return (
    <form autocomplete="off" onSubmit={submitBy(submit)}>
      <h2>{title}</h2>
      {children}
      <p class="problem" role="alert">
        {problem.value}
      </p>
      {/* The keyboard's Enter needs a button of this type. */}
      <input type="submit" hidden />
      <div class="dialog-acts">
        <Button act={close}>Cancel</Button>
        <Button
          kind="primary"
          act={submit}
          busy={isSending.value}
          busyWord={busyWord}
          unavailable={unavailable}
        >
          {act}
        </Button>
      </div>
    </form>
  )
}
