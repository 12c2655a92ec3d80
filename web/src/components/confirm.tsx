import { type ReactNode, useState } from 'react'
import type { Commands } from '@/lib/quote'
import { Button } from '@/ui/button'
import { Dialog } from '@/ui/dialog'
import { CopyAs } from './copy'
import { ErrorNotice } from './notices'

/** Asks before something that cannot be taken back. It stays open, with the reason, when the action fails. */
export function ConfirmDialog({
  open,
  onClose,
  title,
  children,
  action,
  onConfirm,
  danger = false,
  commands,
  ready = true,
}: {
  open: boolean
  onClose: () => void
  title: string
  children?: ReactNode
  /** The word on the button: what happens, not "OK". */
  action: string
  onConfirm: () => Promise<unknown>
  danger?: boolean
  commands?: () => Commands
  ready?: boolean
}) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const close = () => {
    setError(null)
    onClose()
  }
  const confirm = async () => {
    setBusy(true)
    setError(null)
    try {
      await onConfirm()
      close()
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      footer={
        <>
          {commands !== undefined && <CopyAs commands={commands} />}
          <span className="flex-1" />
          <Button onClick={close}>Keep as it is</Button>
          <Button look={danger ? 'danger' : 'primary'} busy={busy} disabled={!ready} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="grid gap-3 text-sm">
        {children}
        {error !== null && <ErrorNotice error={error} />}
      </div>
    </Dialog>
  )
}
